// tables/sums.h: summaries of a kind of events by thread, account, user and host, and the global one: (key of the
// member) x (numbers of the kind).
#pragma once

#include "aggregate/resets.h"
#include "snapshot/sums.h"
#include "tables/keys.h"
#include "tables/tables.h"

namespace perfschema {

// Numbers of one kind, with members for the columns of tables.
template <Kind kKind>
struct Sums {
  Numbers numbers;
  template <uint32_t kWord>
  Stat stat() const {
    return StatIn(numbers, kWord);
  }
  template <uint32_t kWord, uint32_t kOther>
  Stat both() const {
    Stat sum = stat<kWord>();
    sum.Merge(stat<kOther>());
    return sum;
  }
  template <uint32_t kWord>
  uint64_t number() const {
    return numbers[kWord];
  }
};

template <>
struct StatsColumns<Sums<Kind::kStage>> {
  template <auto... Path>
  static constexpr auto Get() {
    return timer_stats<Path..., &Sums<Kind::kStage>::stat<0>>("WAIT", "stages");
  }
};

// The key of a level's rows.
template <Level kLevel>
using SumKey = ItemKey<typename MemberOf<kLevel>::Key, EventKey>;

template <Kind kKind, Level kLevel>
void ScanSums(const Snapshot& snapshot, RowSink<SummaryRow<SumKey<kLevel>, Sums<kKind>>> out) {
  ForEachSum(snapshot, kKind, kLevel, [&](const SumRow& row) {
    out({{MemberOf<kLevel>::Of(row), {row.instrument->name}}, {row.numbers}});
  });
}

template <Kind kKind, Level kLevel>
constexpr TableDef SumTable(std::string_view doc) {
  return summary<SumKey<kLevel>, Sums<kKind>, ScanSums<kKind, kLevel>>(doc, ResetLevel<kKind, kLevel>);
}

// The five tables of a kind: events_`kind`_summary_by_..._by_event_name. `what`: a plural noun that begins a
// sentence.
#define PFS_SUM_TABLE_(name, kind, level, doc)                  \
  constexpr TableDef tables::name = SumTable<kind, level>(doc); \
  static_assert(ok(tables::name))
#define PFS_SUM_TABLES_(family, kind, what)                                                                                             \
  PFS_SUM_TABLE_(events_##family##_summary_by_thread_by_event_name, kind, Level::kThread, what " of each live thread, by instrument."); \
  PFS_SUM_TABLE_(events_##family##_summary_by_account_by_event_name, kind, Level::kAccount,                                             \
                 what " of all threads of each account, ended ones included, by instrument.");                                          \
  PFS_SUM_TABLE_(events_##family##_summary_by_user_by_event_name, kind, Level::kUser,                                                   \
                 what " of all threads of each user, ended ones included, by instrument.");                                             \
  PFS_SUM_TABLE_(events_##family##_summary_by_host_by_event_name, kind, Level::kHost,                                                   \
                 what " of all threads of each host, ended ones included, by instrument.");                                             \
  PFS_SUM_TABLE_(events_##family##_summary_global_by_event_name, kind, Level::kGlobal,                                                  \
                 what " of the process by instrument, those of ended threads included.")

}  // namespace perfschema
