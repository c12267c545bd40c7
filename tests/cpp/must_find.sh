#!/bin/sh
# must_find.sh PROGRAM FILTER EXPRESSION: runs tests of a negative control until their output has the expression. At least six times, and
# for half a minute, because on a busy machine the threads may not overlap at all in one run.
turn=0
end=$(($(date +%s) + 30))
while [ $turn -lt 6 ] || [ "$(date +%s)" -lt $end ]; do
  turn=$((turn + 1))
  output=$("$1" --gtest_filter="$2")
  echo "$output" | grep -e "$3" && exit
done
echo "$output"
echo "not in $turn runs: $3"
exit 1
