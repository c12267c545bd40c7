#!/usr/bin/env bash
# Installs what tests need, and runs them: Debian packages (as root, or with sudo), a fresh virtual environment, pytest.
#
# Usage: tests/run.sh [--all] [arguments for pytest]
#   tests/run.sh              the quick tier: some minutes; it has tests of every feature (tests/tiers.py has the rule)
#   tests/run.sh --all        the gate: the quick tier, then all other tests; writes tests/durations.json
#   tests/run.sh -k truncate  what pytest finds with these arguments, of both tiers; after --all, with all that a test may need
set -euo pipefail
cd "$(dirname "$0")/.."
all=0
if [ "${1:-}" = --all ]; then
  all=1
  shift
fi

packages=(g++ libmd-dev libsqlite3-dev pkg-config python3-dev python3-venv strace)
wanted=() extra=dev
if ((all)); then
  extra=test,databases
  packages+=(faketime iproute2 libgtest-dev qemu-user rsync sqlite3 valgrind xz-utils)
  packages+=(libjemalloc2 libmimalloc-dev libtcmalloc-minimal4 memcached nginx-light ripgrep) # programs and allocators under pfs run
  packages+=(debuginfod) # the client of servers with debug files
  packages+=(fakeroot) # a library between a program and the C library
  packages+=(musl-tools) # a program that cannot have libperfschema-run.so
  packages+=(libmariadb-dev mariadb-client-core mariadb-server-core postgresql prometheus-mysqld-exporter redis-server) # tests start servers
  wanted=(clang libclang-rt-dev) # for the fuzzers
  # Large tools are not here: tests/README.md, "Not in the gate".
fi
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
mapfile -t fuzzers < <(missing "${wanted[@]}")
if ((${#needed[@]} + ${#fuzzers[@]})); then
  if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo apt-get update -qq; fi
fi
((${#needed[@]} == 0)) || install "${needed[@]}"
without=
((${#fuzzers[@]} == 0)) || install "${fuzzers[@]}" || without="the fuzzers: ${fuzzers[*]} could not be installed"

venv=$(mktemp -d "${TMPDIR:-/tmp}/pfs-tests-XXXXXX")
trap 'rm -rf "$venv"' EXIT
# Tests of several users run its Python, and load its libraries, as another user.
chmod 755 "$venv"
echo "== virtual environment in $venv"
python3 -m venv "$venv"
export PATH="$venv/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1
# Each of a thousand programs would compile pandas again, for more than a second.
unset PYTHONDONTWRITEBYTECODE
# Each import of numpy would start threads for algebra, which no test uses.
export OPENBLAS_NUM_THREADS=1
# One tree for the package and the C++ tests: what builds it stays in the environment.
export PFS_BUILD_DIR=$venv/build
mapfile -t needs < <(python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")')
pip install --quiet --no-compile cmake ninja "${needs[@]}"
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_SLOPPINESS=time_macros
fi
settings=(--config-settings build-dir="$PFS_BUILD_DIR/release" --config-settings cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON)
((all == 0)) || settings+=(--config-settings cmake.define.PFS_DEVELOPER=ON) # the C++ tests, which need GoogleTest
pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$venv" "${settings[@]}" . &
building=$!
# Meanwhile, what it and its tests need: the extras, and those that they name.
list_needs='import re, sys, tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
found, open_ = [], sys.argv[1].split(",")
for extra in open_:
    for need in extras[extra]:
        inner = re.fullmatch(r"perfschema\[(.*)\]", need)
        open_ += [name for name in inner[1].split(",") if name not in open_] if inner else []
        found += [] if inner else [need]
print(*dict.fromkeys(found), sep="\n")'
mapfile -t needs < <(python -c "$list_needs" "$extra")
pip install --quiet --no-compile "${needs[@]}"
wait $building
wheel=("$venv"/perfschema-*.whl)
pip install --quiet --no-compile "${wheel[0]}[$extra]"

# Three tests at a time on two processors, for many wait.
together=(python -m pytest -n 3 --dist loadfile --no-loadscope-reorder)
status=0
if (($#)); then
  python -m pytest "$@" || status=$?
elif ((all)); then
  # The first run writes the record, which may not choose for the second.
  cp tests/durations.json "$venv/durations.json"
  "${together[@]}" -q --tier quick --by "$venv/durations.json" --record tests || exit # a broken change fails in minutes
  "${together[@]}" --tier rest --by "$venv/durations.json" --record --durations=60 --durations-min=5 -m "not alone" tests || status=$?
  # Those that measure, or load all processors.
  mapfile -t alone < <(grep -rl 'mark\.alone' tests --include='test_*.py')
  python -m pytest --record --durations=20 --durations-min=3 -m alone "${alone[@]}" || status=$?
else
  "${together[@]}" -q --tier quick tests || status=$?
fi
[ -z "$without" ] || echo "== not run: $without"
exit $status
