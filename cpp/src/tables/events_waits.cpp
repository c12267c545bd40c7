// events_waits_*: three views of the same records.
#include "aggregate/resets.h"
#include "tables/tables.h"

namespace perfschema {

template <>
struct EnumNames<NestingType> {
  static constexpr std::string_view kValues[] = {"TRANSACTION", "STATEMENT", "STAGE", "WAIT"};
};

namespace {

constexpr auto kColumns = columns(
    col<&WaitRow::thread_id>("THREAD_ID", Unit::kNone, "Thread that waited; joins threads.THREAD_ID."),
    col<&WaitRow::event_id>("EVENT_ID", Unit::kNone, "Number of the event in its thread, counted from 1."),
    col<&WaitRow::end_event_id>("END_EVENT_ID", Unit::kNone,
                                "Youngest event of the thread when this one ended; NULL while it runs."),
    col<&WaitRow::event_name>("EVENT_NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."),
    col<&WaitRow::source>("SOURCE", Unit::kNone, "Call site as file:line."),
    col<&WaitRow::timer_start>("TIMER_START", Unit::kPicoseconds, "Begin, since the start of pfs; NULL if not timed."),
    col<&WaitRow::timer_end>("TIMER_END", Unit::kPicoseconds,
                             "End, since the start of pfs; NULL if not timed or still running."),
    col<&WaitRow::timer_wait>("TIMER_WAIT", Unit::kPicoseconds,
                              "TIMER_END minus TIMER_START; NULL if not timed or still running."),
    col<&WaitRow::spins>("SPINS", Unit::kCount, "Turns of a lock that spins; NULL for others."),
    col<&WaitRow::object_schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of a table; NULL for other objects."),
    col<&WaitRow::object_name>("OBJECT_NAME", Unit::kNone,
                               "Name of the object: path of a file, IP:PORT of a socket; NULL if it has none."),
    col<&WaitRow::index_name>("INDEX_NAME", Unit::kNone, "Index of a table; NULL for other objects."),
    col<&WaitRow::object_type>("OBJECT_TYPE", Unit::kNone,
                               "FILE, SOCKET ...; NULL for objects without a type of their own."),
    col<&WaitRow::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone,
                          "Identity of the object; joins the *_instances tables; 0 if none is known."),
    col<&WaitRow::nesting_event_id>("NESTING_EVENT_ID", Unit::kNone,
                                    "EVENT_ID of the event in which this one began; NULL if there was none."),
    col<&WaitRow::nesting_type>("NESTING_EVENT_TYPE", Unit::kNone, "Kind of the event in which this one began."),
    col<&WaitRow::operation>("OPERATION", Unit::kNone, "What was done, such as lock, read, write."),
    col<&WaitRow::number_of_bytes>("NUMBER_OF_BYTES", Unit::kBytes,
                                   "Bytes read or written, sent or received; NULL for others."),
    col<&WaitRow::flags>("FLAGS", Unit::kNone, "Flags given to open; NULL for other operations."));

void ScanCurrent(const Snapshot& snapshot, RowSink<WaitRow> out) { snapshot.ForEachCurrentWait(out); }
void ScanHistory(const Snapshot& snapshot, RowSink<WaitRow> out) { snapshot.ForEachWaitOfHistory(out); }
void ScanHistoryLong(const Snapshot& snapshot, RowSink<WaitRow> out) {
  out.Expect(snapshot.MostWaitsOfHistoryLong());
  snapshot.ForEachWaitOfHistoryLong(out);
}

}  // namespace

constexpr TableDef tables::events_waits_current{
    .doc = "The waits that each live thread is in, or else its last one.",
    .ops = kSelect | kTruncate,
    .key = {"THREAD_ID", "EVENT_ID"},
    .columns = kColumns,
    .scan = scan<&ScanCurrent>,
    .truncate = Hide<kViewCurrent>,
};
static_assert(ok(tables::events_waits_current));

constexpr TableDef tables::events_waits_history{
    .doc =
        "The last waits of each live thread that have ended; performance_schema_events_waits_history_size says how "
        "many.",
    .ops = kSelect | kTruncate,
    .key = {"THREAD_ID", "EVENT_ID"},
    .columns = kColumns,
    .scan = scan<&ScanHistory>,
    .truncate = Hide<kViewHistory>,
};
static_assert(ok(tables::events_waits_history));

constexpr TableDef tables::events_waits_history_long{
    .doc =
        "The last waits of the process that have ended; performance_schema_events_waits_history_long_size says how "
        "many.",
    .ops = kSelect | kTruncate,
    .columns = kColumns,
    .scan = scan<&ScanHistoryLong>,
    .truncate = Hide<kViewHistoryLong>,
};
static_assert(ok(tables::events_waits_history_long));

}  // namespace perfschema
