#!/usr/bin/env bash
# Installs what the tests need and runs them: Debian packages (as root, or with sudo), a fresh virtual environment, pytest.
# Arguments go to pytest: tests/run.sh -k truncate
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ libbenchmark-dev libgtest-dev libmd-dev libsqlite3-dev pkg-config python3-dev python3-venv qemu-user strace valgrind)
packages+=(libmariadb-dev mariadb-client-core mariadb-server-core postgresql) # tests start servers of their own
fuzzers=(clang libclang-rt-dev)
missing() {
  local package
  for package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || echo "$package"
  done
}
install() {
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  echo "== Debian packages: $*"
  # At this run level no service is started.
  "${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}
mapfile -t needed < <(missing "${packages[@]}")
mapfile -t wanted < <(missing "${fuzzers[@]}")
if ((${#needed[@]} + ${#wanted[@]})); then
  if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo apt-get update -qq; fi
fi
((${#needed[@]} == 0)) || install "${needed[@]}"
without=
((${#wanted[@]} == 0)) || install "${wanted[@]}" || without="the fuzzers: ${wanted[*]} could not be installed"

venv=$(mktemp -d "${TMPDIR:-/tmp}/pfs-tests-XXXXXX")
trap 'rm -rf "$venv"' EXIT
echo "== virtual environment in $venv"
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check '.[test,databases]'
status=0
PATH="$venv/bin:$PATH" "$venv/bin/python" -m pytest "$@" || status=$?
[ -z "$without" ] || echo "== not run: $without"
exit $status
