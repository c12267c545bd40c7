#!/usr/bin/env bash
# Installs what the tests need and runs them: Debian packages (as root, or with sudo), a fresh virtual environment, pytest.
# Arguments go to pytest: tests/run.sh -k truncate
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ libbenchmark-dev libgtest-dev libmd-dev libsqlite3-dev pkg-config python3-dev python3-venv qemu-user strace valgrind)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing+=("$package")
done
if ((${#missing[@]})); then
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  echo "== Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

venv=$(mktemp -d "${TMPDIR:-/tmp}/pfs-tests-XXXXXX")
trap 'rm -rf "$venv"' EXIT
echo "== virtual environment in $venv"
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check '.[test]'
PATH="$venv/bin:$PATH" "$venv/bin/python" -m pytest "$@"
