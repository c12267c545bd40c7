#!/usr/bin/env bash
# Fuzzes the digest of statements with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer. Needs clang (apt-get install clang) and libmd-dev.
# Usage: [PFS_FUZZ_SEED=n] tests/fuzz/digest.sh [seconds, 60 if not said] [folder that keeps the corpus]
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v clang++ >/dev/null || { echo "digest.sh: clang++ is missing: apt-get install clang" >&2; exit 2; }
folder=$(mktemp -d "${TMPDIR:-/tmp}/pfs-fuzz-XXXXXX")
trap 'rm -rf "$folder"' EXIT
corpus=${2:-$folder/corpus}
mkdir -p "$corpus"
printf '"%s"\n' \
  "select" "in (" "/*!" "*/" "--" "\$a\$" "%(a)s" "null" "values" "@@" "1e-1" "0x1" "_utf8'" "count(" "::" "cast(" "as" "now()" "savepoint" "fetch" "declare" "cursor" "[" "#" "q'[" "u&'" "e'" > "$folder/words"
clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Icpp/src -Icpp/include \
  tests/fuzz/digest_fuzz.cpp cpp/src/base/digest.cpp cpp/src/base/sql_lexer.cpp cpp/src/base/request_digest.cpp -l:libmd.a -o "$folder/digest_fuzz"
"$folder/digest_fuzz" -seed="${PFS_FUZZ_SEED:-$RANDOM}" -max_total_time="${1:-60}" -max_len=4096 -dict="$folder/words" -print_final_stats=1 -artifact_prefix="$folder/" "$corpus" || {
  cp "$folder"/{crash,leak,oom,timeout}-* . 2>/dev/null || true
  echo "digest.sh: failed; the input lies here" >&2
  exit 1
}
