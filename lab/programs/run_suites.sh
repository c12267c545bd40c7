#!/usr/bin/env bash
# Runs the tests of other programs without pfs and under `pfs run`, and compares the results: parts of redis' own test suite, from Debian's
# source, and scripts of sqlite3's command line. Run it by hand: bash lab/programs/run_suites.sh [redis] [sqlite]
# Needs `pip install perfschema` and Debian's redis-server, sqlite3, tcl, dpkg-dev. apt gets a list and a cache of its own.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
units=(unit/type/list unit/type/hash unit/type/zset unit/type/stream unit/multi unit/expire unit/scripting unit/pubsub integration/aof)

redis() {
  mkdir -p lists/partial
  echo "deb-src http://deb.debian.org/debian bookworm main" >sources.list
  local apt=(-qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists")
  apt-get "${apt[@]}" update
  apt-get "${apt[@]}" --download-only source redis
  dpkg-source -x redis_*.dsc redis >unpacked
  cd redis
  # The suite starts src/redis-server and its tools. Debian's own are these.
  for tool in server cli benchmark check-aof check-rdb; do ln -sf "$(command -v redis-$tool)" "src/redis-$tool"; done
  local only=()
  for unit in "${units[@]}"; do only+=(--single "$unit"); done
  ./runtest --clients 2 "${only[@]}" >../plain 2>&1 || true
  pfs run --no-report -- ./runtest --clients 2 "${only[@]}" >../seen 2>&1 || true
  cd ..
  for each in plain seen; do
    sed 's/\x1b\[[0-9;]*m//g' "$each" | grep -aoE '\[(ok|err|exception)\]: [^(]*' | sed 's/ *$//' | sort >"$each.tests"
    echo "$each: $(grep -c '^\[ok\]' "$each.tests") ok, $(grep -cE '^\[(err|exception)\]' "$each.tests" || true) failed"
  done
  diff plain.tests seen.tests && echo "redis: the same tests pass"
}

sqlite() {
  local scripts=(
    "create table t(a integer primary key, b text unique); insert into t select value, hex(value) from generate_series(1, 5000); select sum(a), max(b) from t;"
    "create table t(a); begin; insert into t values (1), (2); rollback; select count(*) from t; insert into t values (3); savepoint s; delete from t; rollback to s; select * from t;"
    "pragma journal_mode=wal; create table t(a, b); create index i on t(b); with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000) insert into t select x, x * 7 % 1000 from n; select b, count(*) from t group by b order by 2 desc, 1 limit 5; pragma integrity_check; vacuum;"
    "select json_group_array(value) from json_each('[3,1,2]'); select * from nosuch; select 1/0, typeof(1.5), printf('%08.3f', 3.14159);"
    "create virtual table f using fts5(x); insert into f values ('one two'), ('two three'); select x from f where f match 'two' order by rank; .dump f"
  )
  local i=0 script
  for script in "${scripts[@]}"; do
    i=$((i + 1))
    local code=0 code_seen=0
    sqlite3 "plain$i.db" "$script" >"plain$i" 2>&1 || code=$?
    pfs run --no-report -- sqlite3 "seen$i.db" "$script" >"seen$i" 2>&1 || code_seen=$?
    [ "$code" = "$code_seen" ] && cmp "plain$i" "seen$i"
    if [ -e "plain$i.db" ]; then cmp <(sqlite3 "plain$i.db" .dump) <(sqlite3 "seen$i.db" .dump); fi
  done
  echo "sqlite: $i scripts, the same output, exit codes and databases"
}

for name in ${*:-sqlite redis}; do
  "$name"
done
