// tables/statement_columns.h: columns of the statement counters, in records and in sums.
#pragma once

#include "snapshot/events.h"
#include "tables/sums.h"

namespace perfschema {

namespace internal {
template <uint32_t kBegin, auto... Path, uint32_t... kIndex>
constexpr auto CounterSums(std::integer_sequence<uint32_t, kIndex...>) {
  return columns(col<Path..., &Sums<Kind::kStatement>::template number<kCounterWords + kBegin + kIndex>>(
      {"SUM_", kStatementCounterTraits[kBegin + kIndex].column},
      kStatementCounterTraits[kBegin + kIndex].column.ends_with("TIME") ? Unit::kPicoseconds : Unit::kCount,
      {"Sum of ", kStatementCounterTraits[kBegin + kIndex].what, "."})...);
}
template <uint32_t kBegin, auto... Path, uint32_t... kIndex>
constexpr auto Counters(std::integer_sequence<uint32_t, kIndex...>) {
  return columns(col<Path..., &StatementRow::template counter<static_cast<StatementCounter>(kBegin + kIndex)>>(
      kStatementCounterTraits[kBegin + kIndex].column,
      kStatementCounterTraits[kBegin + kIndex].column.ends_with("TIME") ? Unit::kPicoseconds : Unit::kCount,
      {"Number: ", kStatementCounterTraits[kBegin + kIndex].what, "."})...);
}
}  // namespace internal

// SUM_LOCK_TIME ... COUNT_SECONDARY of the Sums at the end of the path.
template <auto... Path>
constexpr auto statement_sums() {
  using Of = Sums<Kind::kStatement>;
  return columns(
      internal::CounterSums<0, Path...>(std::make_integer_sequence<uint32_t, kStatementCounters>()),
      col<Path..., &Of::number<kControlledMemoryWord>>("MAX_CONTROLLED_MEMORY", Unit::kBytes,
                                                       "Peak of controlled memory of one statement."),
      col<Path..., &Of::number<kTotalMemoryWord>>("MAX_TOTAL_MEMORY", Unit::kBytes, "Peak of memory of one statement."),
      col<Path..., &Of::number<kSecondaryWord>>("COUNT_SECONDARY", Unit::kCount, "Statements that the secondary engine executed."));
}

template <>
struct StatsColumns<Sums<Kind::kStatement>> {
  template <auto... Path>
  static constexpr auto Get() {
    return columns(timer_stats<Path..., &Sums<Kind::kStatement>::stat<0>>("WAIT", "statements"), statement_sums<Path...>());
  }
};

}  // namespace perfschema
