// busiest: the waits, files, statements and threads of the process in one table, as `pfs top` shows them. An addition of pfs.
#include "snapshot/digests.h"
#include "snapshot/objects.h"
#include "snapshot/sums.h"
#include "snapshot/threads.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

struct BusyRow {
  Text<10> part{};
  std::optional<LongText> name{};
  std::optional<Text<64>> schema{};
  std::optional<uint64_t> thread_id{};
  std::optional<Text<128>> event_name{};
  Stat stat{};
  uint64_t bytes_read{}, bytes_written{}, rows_sent{}, errors{};
};

// A number that only its own table can merge: rows have no key.
template <auto... Path>
constexpr Column OfBusy(FixedText<48> name, Unit unit, FixedText<200> doc) {
  return col<Path...>(name, unit, doc).combines(Combine::kDerived);
}
constexpr auto kBusyColumns = columns(
    col<&BusyRow::part>("PART", Unit::kNone, "One of waits, files, statements and threads, which overlap."),
    col<&BusyRow::name>("NAME", Unit::kNone, "Instrument, file, digest text or thread; NULL for statements without a digest."),
    col<&BusyRow::schema>("SCHEMA_NAME", Unit::kNone, "Default schema of statements."),
    col<&BusyRow::thread_id>("THREAD_ID", Unit::kNone, "Live thread; joins threads.THREAD_ID."),
    col<&BusyRow::event_name>("EVENT_NAME", Unit::kNone, "Instrument; NULL for statements."),
    OfBusy<&BusyRow::stat, &Stat::count>("COUNT_STAR", Unit::kCount, "Number of events."),
    OfBusy<&BusyRow::stat, &Stat::sum_ps>("SUM_TIMER_WAIT", Unit::kPicoseconds, "Total time of the timed events."),
    OfBusy<&BusyRow::stat, &Stat::max_ps>("MAX_TIMER_WAIT", Unit::kPicoseconds, "Longest of the timed events; 0 if there are none."),
    OfBusy<&BusyRow::stat, &Stat::unsampled>("COUNT_NOT_SAMPLED", Unit::kCount, "Of COUNT_STAR: events that were only counted."),
    OfBusy<&BusyRow::bytes_read>("SUM_NUMBER_OF_BYTES_READ", Unit::kBytes, "Bytes that were read from the file."),
    OfBusy<&BusyRow::bytes_written>("SUM_NUMBER_OF_BYTES_WRITE", Unit::kBytes, "Bytes that were written to the file."),
    OfBusy<&BusyRow::rows_sent>("SUM_ROWS_SENT", Unit::kCount, "Rows that the statements returned."),
    OfBusy<&BusyRow::errors>("SUM_ERRORS", Unit::kCount, "Statements that ended with an error."));

void ScanBusiest(const Snapshot& snapshot, RowSink<BusyRow> out) {
  const auto put = [&](const BusyRow& row) {  // a thread that waits for work waits for nothing slow
    if (row.stat.count != 0 && !(row.event_name && row.event_name->view() == "idle")) out(row);
  };
  ForEachClassTotal(snapshot, [&](const ClassTotalRow& row) {
    const Text<128> name = row.instrument->name;
    put({.part = "waits", .name = name.view(), .event_name = name, .stat = row.lanes.total()});
  });
  ForEachFile(snapshot, kFileNumbers | kFileName, [&](const FileRow& row) {
    if (row.instrument->family != Family::kFile) return;
    put({.part = "files",
         .name = row.name.view(),
         .event_name = row.instrument->name,
         .stat = row.io.total(),
         .bytes_read = row.io.amounts[kReadLane],
         .bytes_written = row.io.amounts[kWriteLane]});
  });
  ForEachDigest(snapshot, [&](const DigestRow& row) {
    const auto sum = [&](StatementCounter counter) { return row.numbers[kCounterWords + static_cast<uint32_t>(counter)]; };
    put({.part = "statements",
         .name = row.text,
         .schema = row.schema,
         .stat = StatIn(row.numbers, 0),
         .rows_sent = sum(StatementCounter::kRowsSent),
         .errors = sum(StatementCounter::kErrors)});
  });
  const std::unordered_map<uint64_t, Text<128>> names = ThreadNames(snapshot);
  ForEachSum(snapshot, Kind::kWait, Level::kThread, [&](const SumRow& row) {
    const auto name = names.find(row.thread_id);
    put({.part = "threads",
         .name = name == names.end() ? std::nullopt : std::optional<LongText>(name->second.view()),
         .thread_id = row.thread_id,
         .event_name = row.instrument->name,
         .stat = WaitStatIn(row.numbers)});
  });
}

}  // namespace

constexpr TableDef tables::busiest{
    .doc = "What the process did: its waits, files, statements and threads that counted, as pfs top shows them.",
    .columns = columns_of<kBusyColumns>,
    .scan = scan<&ScanBusiest>,
};
static_assert(ok(tables::busiest));

}  // namespace perfschema
