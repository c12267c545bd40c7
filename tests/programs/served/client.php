<?php
// What the drivers mysqli and PDO read. $argv: socket.
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$client = new mysqli("localhost", "me", "", "performance_schema", 0, $argv[1]);
$statement = $client->prepare("select THREAD_ID, NAME, 1.5 from threads where THREAD_ID = ? and NAME like ?");
$number = 1;
$pattern = "%";
$statement->bind_param("is", $number, $pattern);
$statement->execute();
echo "prepared: ", implode(" ", $statement->get_result()->fetch_row()), "\n";
$statement = $client->prepare("select NAME from setup_instruments order by 1");
$statement->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
$statement->execute();
$statement->bind_result($name);
for ($count = 0; $statement->fetch(); $count++);
$statement->close();
echo "cursor: $count\n";
echo "titles: ", implode(" ", array_keys($client->query("select version(), Max(THREAD_ID) from threads")->fetch_assoc())), "\n";
$client->multi_query("select 1; set @a = 2; select @a");
$found = [];
do {
    if ($result = $client->store_result()) {
        $found[] = $result->fetch_row()[0];
    }
} while ($client->more_results() && $client->next_result());
echo "answers: ", implode(" ", $found), "\n";
echo "state: ", substr($client->stat(), 0, 8), "\n";
try {
    $client->query("drop table threads");
} catch (mysqli_sql_exception $error) {
    echo "error: ", $error->getCode(), " ", $error->getSqlState(), "\n";
}
$client->change_user("you", "", "sys");
echo "user: ", implode(" ", $client->query("select user(), database()")->fetch_row()), "\n";
$client = new PDO("mysql:unix_socket=$argv[1];dbname=performance_schema", "me", "", [PDO::ATTR_EMULATE_PREPARES => false]);
$client->beginTransaction();
$inside = $client->inTransaction();
$client->commit();
echo "transaction: ", var_export($inside && !$client->inTransaction(), true), "\n";
