// What the driver mysql reads. argv: socket.
const mysql = require('mysql');

const client = mysql.createConnection({
  socketPath: process.argv[2], user: 'me', database: 'performance_schema', multipleStatements: true,
});
const ask = (sql, values) => new Promise((done, failed) => client.query(sql, values, (error, rows) => (error ? failed(error) : done(rows))));

(async () => {
  const [one, two] = await ask('select 1 as a; select 2 as a');
  console.log(`answers: ${one[0].a} ${two[0].a}`);
  console.log(`titles: ${Object.keys((await ask('select version(), Max(THREAD_ID) from threads'))[0]).join(' ')}`);
  console.log(`time: ${(await ask('select now() as moment'))[0].moment instanceof Date}`);
  await ask('drop table threads').catch((error) => console.log(`error: ${error.errno} ${error.sqlState}`));
  await new Promise((done, failed) => client.changeUser({ user: 'you', database: 'sys' }, (error) => (error ? failed(error) : done())));
  const [row] = await ask('select user() as u, database() as d');
  console.log(`user: ${row.u} ${row.d}`);
  client.end();
})();
