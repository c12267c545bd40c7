#!/usr/bin/env bash
# Installs what the tests need and runs them: Debian packages (as root, or with sudo), a fresh virtual environment, pytest.
# Arguments go to pytest, which runs once then: tests/run.sh -k truncate
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(faketime g++ iproute2 libgtest-dev libmd-dev libsqlite3-dev pkg-config python3-dev python3-venv qemu-user rsync sqlite3 strace valgrind xz-utils)
packages+=(libjemalloc2 libmimalloc-dev libtcmalloc-minimal4 memcached nginx-light ripgrep) # programs and allocators under pfs run
packages+=(fakeroot) # a library between a program and the C library
packages+=(musl-tools) # a program that cannot have libperfschema-run.so
packages+=(libmariadb-dev mariadb-client-core mariadb-server-core postgresql prometheus-mysqld-exporter redis-server) # tests start servers of their own
# Large tools are not here: docs/contribute/testing.md, "Not in the gate".
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
pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$venv" --config-settings build-dir="$PFS_BUILD_DIR/release" \
  --config-settings cmake.define.PFS_DEVELOPER=ON --config-settings cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON . &
building=$!
# Meanwhile, what it and its tests need: all extras.
list_extras='import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*{need for extra in p["optional-dependencies"].values() for need in extra if not need.startswith("perfschema[")}, sep="\n")'
mapfile -t needs < <(python -c "$list_extras")
pip install --quiet --no-compile "${needs[@]}"
wait $building
wheel=("$venv"/perfschema-*.whl)
pip install --quiet --no-compile "${wheel[0]}[test,databases]"

status=0
if (($#)); then
  python -m pytest "$@" || status=$?
else
  # Cheap checks first; then three tests at a time on two processors, for many wait; then those that measure, or load all processors.
  quick=(tests/python/test_layering.py tests/python/test_python_layering.py tests/python/test_layout_of_sources.py tests/python/test_words.py)
  python -m pytest -q "${quick[@]}" || exit
  python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=60 --durations-min=5 -m "not alone" "${quick[@]/#/--ignore=}" || status=$?
  mapfile -t alone < <(grep -rl 'mark\.alone' tests --include='test_*.py')
  python -m pytest --durations=20 --durations-min=3 -m alone "${alone[@]}" || status=$?
fi
[ -z "$without" ] || echo "== not run: $without"
exit $status
