#!/usr/bin/env bash
# Fuzzes attaching and reading a segment with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer. Needs clang (apt-get install clang), cmake,
# ninja and libmd-dev. The segment is that of tests/programs/checked.c, killed in the middle of its work.
# Usage: [PFS_FUZZ_SEED=n] tests/fuzz/segment.sh [seconds, 60 if not said] [folder that keeps what was built, and the corpus]
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v clang++ >/dev/null || { echo "segment.sh: clang++ is missing: apt-get install clang" >&2; exit 2; }
folder=${2:-$(mktemp -d "${TMPDIR:-/tmp}/pfs-fuzz-XXXXXX")}
[ $# -ge 2 ] || trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/corpus" "$folder/pfs" "$folder/work"
chmod 700 "$folder/pfs"
# PFS_FUZZ_BUILD: a tree that is configured like the one here; its objects are used.
build=${PFS_FUZZ_BUILD:-$folder/build}
{
  [ -n "${PFS_FUZZ_BUILD:-}" ] || cmake -S . -B "$build" -GNinja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
    -DCMAKE_CXX_FLAGS="-O1 -g -fno-sanitize-recover=all" -DPFS_SANITIZE=fuzzer-no-link,address,undefined
  ninja -C "$build" perfschema_objects
} > "$folder/build.log" 2>&1 || { tail -50 "$folder/build.log" >&2; exit 2; }
objects=$(find "$build/CMakeFiles/perfschema_objects.dir" -name '*.o')
sanitizers=address,undefined
clang -g -fsanitize=$sanitizers -Icpp/include -c tests/programs/checked.c -o "$folder/checked.o"
# shellcheck disable=SC2086
clang++ -g -fsanitize=$sanitizers "$folder/checked.o" $objects -l:libmd.a -lpthread -o "$folder/checked"
# shellcheck disable=SC2086
clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,$sanitizers -fno-sanitize-recover=all -Icpp/src -Icpp/include tests/fuzz/segment_fuzz.cpp $objects \
  -l:libmd.a -lpthread -o "$folder/segment_fuzz"

rm -f "$folder"/pfs/*.pfs
PFS_DIR=$folder/pfs PFS_OPTIONS=$(python3 -m tests.python._programs.small) ASAN_OPTIONS=detect_leaks=0 "$folder/checked" "$folder/work" 0 > "$folder/checked.log" &
program=$!
sleep 2
kill -9 $program
wait $program 2>/dev/null || true
segments=("$folder"/pfs/*.pfs)
seed=${PFS_FUZZ_SEED:-$RANDOM}
for i in 1 2 4 8 16 32; do
  [ -e "$folder/corpus/seed$i" ] || python3 -c "import random, sys; sys.stdout.buffer.write(random.Random($seed + $i).randbytes(1 + 16 * $i))" > "$folder/corpus/seed$i"
done
export PFS_FUZZ_SEGMENT=${segments[0]} PFS_SEGMENT=private
ASAN_OPTIONS=allocator_may_return_null=0 "$folder/segment_fuzz" -seed="$seed" -max_total_time="${1:-60}" -max_len=513 -len_control=0 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="$folder/" "$folder/corpus" || {
  cp "$folder"/{crash,leak,oom,timeout,slow-unit}-* . 2>/dev/null || true
  echo "segment.sh: failed; the input lies here" >&2
  exit 1
}
