#!/bin/bash
# Fetches hnswlib 0.8.0 from PyPI, puts pfs into it, fills an index with and without pfs, and prints the tables. Run it by hand:
#   bash lab/programs/hnswlib.sh [POINTS]
# It needs g++ 12 or later, and perfschema in the current environment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
points=${1:-30000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pip install -q setuptools wheel numpy pybind11 # pip runs the setup.py of the package to read its name
pip download -q --no-deps --no-build-isolation --no-binary :all: hnswlib==0.8.0
mkdir plain instrumented
tar xzf hnswlib-0.8.0.tar.gz --strip-components=1 -C plain
tar xzf hnswlib-0.8.0.tar.gz --strip-components=1 -C instrumented
patch -d instrumented -p1 <"$here/hnswlib.patch"
g++ -std=c++20 -O2 -pthread -Iplain "$here/hnswlib_fill.cpp" -o fill-plain
# shellcheck disable=SC2046
g++ -std=c++20 -O2 -pthread -Iinstrumented "$here/hnswlib_fill.cpp" $(pfs config --cflags --libs) -o fill-pfs
echo "Without pfs:"
time ./fill-plain "$points"
echo "With pfs:"
export PFS_DIR=$work/segments PFS_KEEP=1 PFS_OPTIONS="performance_schema_max_mutex_instances=200000"
time ./fill-pfs "$points"
segment=$(ls "$PFS_DIR"/*.pfs)
pfs show "$segment" events_waits_summary_global_by_event_name --human --where "COUNT_STAR > 0" \
  --columns EVENT_NAME,COUNT_STAR,SUM_TIMER_WAIT,MAX_TIMER_WAIT --sort "SUM_TIMER_WAIT desc"
pfs show "$segment" file_summary_by_instance --human \
  --columns COUNT_READ,SUM_NUMBER_OF_BYTES_READ,COUNT_WRITE,SUM_NUMBER_OF_BYTES_WRITE,SUM_TIMER_WAIT
