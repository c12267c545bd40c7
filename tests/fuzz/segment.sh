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

# Limits as small as they go: a small segment is read often.
small=
for name in accounts_size hosts_size users_size digests_size max_table_instances max_index_stat max_metadata_locks max_table_handles \
  max_cond_classes max_file_classes max_memory_classes max_mutex_classes max_rwlock_classes max_socket_classes max_stage_classes \
  max_statement_classes max_thread_classes max_cond_instances max_socket_instances max_program_instances max_prepared_statements_instances \
  max_status_variables setup_actors_size setup_objects_size error_size; do
  small+="performance_schema_$name=8,"
done
for name in max_file_instances max_mutex_instances max_rwlock_instances max_thread_instances; do small+="performance_schema_$name=16,"; done
for kind in waits stages statements transactions; do small+="performance_schema_events_${kind}_history_long_size=64,"; done
small+="performance_schema_max_object_cells=256,performance_schema_max_program_rows=64,performance_schema_max_source_locations=64,"
small+="performance_schema_max_sql_text_length=128,performance_schema_max_digest_length=128,"
small+="performance_schema_instrument='%=ON',performance_schema_consumer_events_waits_history_long=ON,"
small+="performance_schema_consumer_events_stages_history_long=ON,performance_schema_consumer_events_statements_history_long=ON,"
small+="performance_schema_consumer_events_transactions_history_long=ON"
rm -f "$folder"/pfs/*.pfs
PFS_DIR=$folder/pfs PFS_OPTIONS=$small ASAN_OPTIONS=detect_leaks=0 "$folder/checked" "$folder/work" 0 > "$folder/checked.log" &
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
