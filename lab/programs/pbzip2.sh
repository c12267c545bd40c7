#!/bin/bash
# Fetches the source of pbzip2 1.1.13 from Debian, puts pfs into it, compresses a file and prints the tables. Run it by hand:
#   bash lab/programs/pbzip2.sh FILE
# It needs g++, libbz2-dev, dpkg-dev, and perfschema in the current environment. apt gets a list and a cache of its own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
file=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial
echo "deb-src http://deb.debian.org/debian bookworm main" >sources.list
apt=(-qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists")
apt-get "${apt[@]}" update
apt-get "${apt[@]}" source pbzip2=1.1.13-1
cp -r pbzip2-1.1.13 plain
patch -d pbzip2-1.1.13 -p1 <"$here/pbzip2.patch"
make -s -C plain CXX="g++ -w" CPPFLAGS=-O2 pbzip2
make -s -C pbzip2-1.1.13 CXX="g++ -w" CPPFLAGS="-O2 $(pfs config --cflags)" LDLIBS="-lbz2 -lpthread $(pfs config --libs)" pbzip2
cp "$file" input
echo "Without pfs:"
time plain/pbzip2 -k -c -p2 input >plain.bz2
echo "With pfs:"
export PFS_DIR=$work/segments PFS_KEEP=1
time pbzip2-1.1.13/pbzip2 -k -p2 input
cmp plain.bz2 input.bz2
segment=$(ls "$PFS_DIR"/*.pfs)
pfs show "$segment" events_waits_summary_global_by_event_name --human --where "COUNT_STAR > 0" \
  --columns EVENT_NAME,COUNT_STAR,SUM_TIMER_WAIT,MAX_TIMER_WAIT --sort "SUM_TIMER_WAIT desc"
pfs show "$segment" file_summary_by_instance --human \
  --columns FILE_NAME,COUNT_READ,SUM_NUMBER_OF_BYTES_READ,COUNT_WRITE,SUM_NUMBER_OF_BYTES_WRITE,SUM_TIMER_WAIT
pfs show "$segment" events_waits_history_long --human --where "EVENT_NAME like 'wait/synch/%'" \
  --columns EVENT_NAME,SOURCE,TIMER_WAIT --sort "TIMER_WAIT desc" --limit 6
