#!/usr/bin/env bash
# Prints the reports of lab/pages/run_programs.md: nginx, PostgreSQL under pgbench, a compiler, xz. Arguments choose some of them.
# Needs `pip install perfschema` and, on Debian, nginx-light, apache2-utils, postgresql, gcc, xz-utils.
set -euo pipefail
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
export PATH="$PATH:/usr/sbin:$(echo /usr/lib/postgresql/*/bin)"

nginx_() {
  mkdir "$work/www"
  head -c 20000 /dev/urandom >"$work/www/page.bin"
  cat >"$work/nginx.conf" <<END
daemon off; worker_processes 2; pid $work/pid; error_log $work/error; events {}
http { access_log $work/access.log; server { listen 127.0.0.1:18080; root $work/www; } }
END
  [ "$(id -u)" != 0 ] || sed -i '1s/^/user root; /' "$work/nginx.conf"
  pfs run --decode http --limit 4 -o "$work/report" -- nginx -c "$work/nginx.conf" -e "$work/error" &
  until curl -sf http://127.0.0.1:18080/page.bin >"$work/first"; do sleep 0.2; done
  ab -q -n 2000 -c 10 http://127.0.0.1:18080/page.bin >"$work/ab"
  kill -QUIT "$(cat "$work/pid")"
  wait
  cat "$work/report"
}

# PostgreSQL refuses to run as root. If this script does, the server runs as nobody, with the variables that `pfs run` would give it.
postgres_() {
  local as=() data=$work/pg/data
  mkdir -m 755 "$work/pg"
  mkdir -m 700 "$work/pg/segments"
  if [ "$(id -u)" = 0 ]; then
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chown -R 65534:65534 "$work/pg"
  fi
  "${as[@]}" initdb -D "$data" -A trust -U postgres --no-sync --locale=C -E UTF8 >"$work/initdb"
  mapfile -t variables < <(python -c "from pfs._process.run.launch import environment
print(*(f'{name}={value}' for name, value in environment('$work/pg/segments').items()), sep='\n')")
  "${as[@]}" env "${variables[@]}" postgres -D "$data" -c listen_addresses= -k "$work/pg" >"$work/log" 2>&1 &
  local server=$!
  until pg_isready -q -h "$work/pg"; do sleep 0.2; done
  pgbench -h "$work/pg" -U postgres -i -q -s 5 postgres >"$work/init" 2>&1
  pgbench -h "$work/pg" -U postgres -n -c 4 -t 500 postgres >"$work/pgbench"
  kill -INT "$server"
  wait
  python -c "import glob; from pfs._process.run.report import gather, text_of
print(text_of(gather(glob.glob('$work/pg/segments/*.pfs')), 6))"
}

compiler_() {
  printf '#include <map>\n#include <regex>\n#include <string>\nstd::map<std::string, std::regex> all;\nint main() { return all.size(); }\n' >"$work/a.cpp"
  (cd "$work" && pfs run --limit 5 -- c++ -O2 -c a.cpp)
}

xz_() {
  head -c 30000000 /dev/urandom >"$work/data"
  pfs run --limit 6 -- xz -T2 -1 -k "$work/data"
}

for name in ${*:-nginx postgres compiler xz}; do
  echo "== $name"
  "${name}_" 2>&1
done
