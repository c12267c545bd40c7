#!/bin/sh
# must_find.sh PROGRAM FILTER EXPRESSION: runs tests of a negative control until their output has the expression. Up to six times, because
# on a busy machine the threads may not overlap at all in one run.
for turn in 1 2 3 4 5 6; do
  output=$("$1" --gtest_filter="$2")
  echo "$output" | grep -e "$3" && exit
done
echo "$output"
echo "not in $turn runs: $3"
exit 1
