// memory_summary_*: blocks and bytes by instrument: by thread, account, user and host, and the global one.
#include "snapshot/sums.h"
#include "tables/sums.h"

namespace perfschema {

template <>
struct StatsColumns<MemoryRow> {
  using Row = MemoryRow;
  using Side = MemoryRow::Side;
  template <auto... Path>
  static constexpr auto Get() {
    return columns(
        col<Path..., &Row::blocks, &Side::alloc>("COUNT_ALLOC", Unit::kCount, "Blocks that were allocated."),
        col<Path..., &Row::blocks, &Side::free>("COUNT_FREE", Unit::kCount, "Blocks that were freed."),
        col<Path..., &Row::bytes, &Side::alloc>("SUM_NUMBER_OF_BYTES_ALLOC", Unit::kBytes, "Bytes that were allocated."),
        col<Path..., &Row::bytes, &Side::free>("SUM_NUMBER_OF_BYTES_FREE", Unit::kBytes, "Bytes that were freed."),
        col<Path..., &Row::blocks, &Side::low>("LOW_COUNT_USED", Unit::kCount, "Fewest blocks in use at one time."),
        col<Path..., &Row::blocks, &Side::current>("CURRENT_COUNT_USED", Unit::kCount, "Blocks in use: allocated and not freed."),
        col<Path..., &Row::blocks, &Side::high>("HIGH_COUNT_USED", Unit::kCount, "Most blocks in use at one time."),
        col<Path..., &Row::bytes, &Side::low>("LOW_NUMBER_OF_BYTES_USED", Unit::kBytes, "Fewest bytes in use at one time."),
        col<Path..., &Row::bytes, &Side::current>("CURRENT_NUMBER_OF_BYTES_USED", Unit::kBytes, "Bytes in use: allocated and not freed."),
        col<Path..., &Row::bytes, &Side::high>("HIGH_NUMBER_OF_BYTES_USED", Unit::kBytes, "Most bytes in use at one time."));
  }
};

namespace {

template <Level kLevel>
void ScanMemory(const Snapshot& snapshot, RowSink<SummaryRow<SumKey<kLevel>, MemoryRow>> out) {
  constexpr Numbers kNone{};
  ForEachMemory(snapshot, kLevel, [&](const MemoryRow& row) {
    out({{MemberOf<kLevel>::Of({row.instrument, row.thread_id, row.principal, 0, kNone}), {row.instrument->name}}, row});
  });
}

template <Level kLevel>
constexpr TableDef MemoryTable(std::string_view doc) {
  return summary<SumKey<kLevel>, MemoryRow, ScanMemory<kLevel>>(doc, ResetLevel<Kind::kMemory, kLevel>);
}

}  // namespace

constexpr TableDef tables::memory_summary_by_thread_by_event_name =
    MemoryTable<Level::kThread>("Memory of each live thread, by instrument.");
static_assert(ok(tables::memory_summary_by_thread_by_event_name));
constexpr TableDef tables::memory_summary_by_account_by_event_name =
    MemoryTable<Level::kAccount>("Memory of all threads of each account, ended ones included, by instrument.");
static_assert(ok(tables::memory_summary_by_account_by_event_name));
constexpr TableDef tables::memory_summary_by_user_by_event_name =
    MemoryTable<Level::kUser>("Memory of all threads of each user, ended ones included, by instrument.");
static_assert(ok(tables::memory_summary_by_user_by_event_name));
constexpr TableDef tables::memory_summary_by_host_by_event_name =
    MemoryTable<Level::kHost>("Memory of all threads of each host, ended ones included, by instrument.");
static_assert(ok(tables::memory_summary_by_host_by_event_name));
constexpr TableDef tables::memory_summary_global_by_event_name =
    MemoryTable<Level::kGlobal>("Memory of the process by instrument, that of ended threads included, and the memory of pfs itself.");
static_assert(ok(tables::memory_summary_global_by_event_name));

}  // namespace perfschema
