// running, blocked, lock_reasons: what the reader finds out about the present, and about why threads wait. These tables are an addition
// of pfs.
#include "snapshot/blocked.h"
#include "snapshot/events.h"
#include "snapshot/lock_reasons.h"
#include "snapshot/open_events.h"
#include "tables/enums.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

constexpr auto kRunningColumns = columns(
    col<&OpenEvent::event, &EventRow::thread_id>("THREAD_ID", Unit::kNone, "Thread of the event; joins threads.THREAD_ID."),
    col<&OpenEvent::thread>("THREAD", Unit::kNone, "Name of the thread."),
    col<&OpenEvent::event, &EventRow::event_id>("EVENT_ID", Unit::kNone, "Number of the event in its thread."),
    col<&OpenEvent::kind>("EVENT_TYPE", Unit::kNone, "Kind of the event."),
    col<&OpenEvent::event, &EventRow::event_name>("EVENT_NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."),
    col<&OpenEvent::event, &EventRow::source>("SOURCE", Unit::kNone, "Call site as file:line."),
    col<&OpenEvent::event, &EventRow::timer_start>("TIMER_START", Unit::kPicoseconds, "Begin, since the start of pfs; NULL if not timed."),
    col<&OpenEvent::event, &EventRow::timer_wait>("TIMER_WAIT", Unit::kPicoseconds, "The time so far; NULL if not timed."),
    col<&OpenEvent::operation>("OPERATION", Unit::kNone, "Operation of a wait, such as lock, read, write."),
    col<&OpenEvent::schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of a table that is waited for, or default schema of a statement."),
    col<&OpenEvent::object_name>("OBJECT_NAME", Unit::kNone, "Name of the object that is waited for; NULL if it has none."),
    col<&OpenEvent::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone,
                            "Identity of the object that is waited for; joins the *_instances tables."),
    col<&OpenEvent::sql_text>("SQL_TEXT", Unit::kNone, "Text of a statement.").literals(),
    col<&OpenEvent::digest_text>("DIGEST_TEXT", Unit::kNone, "Text of a statement without its values, if it is known already."),
    col<&OpenEvent::event, &EventRow::nesting_event_id>("NESTING_EVENT_ID", Unit::kNone,
                                                        "EVENT_ID of the event in which this one began; NULL if there was none."));

void ScanRunning(const Snapshot& snapshot, RowSink<OpenEvent> out) {
  if (!snapshot.ok()) return;
  for (const OpenEvent& row : OpenEvents(snapshot)) out(row);
}

template <auto... Path>
constexpr Column OfWait(FixedText<48> name, Unit unit, FixedText<200> doc) {
  return col<&BlockedRow::wait, Path...>(name, unit, doc);
}
constexpr auto kBlockedColumns = columns(
    OfWait<&OpenEvent::event, &EventRow::thread_id>("THREAD_ID", Unit::kNone, "Thread that waits; joins threads.THREAD_ID."),
    OfWait<&OpenEvent::thread>("THREAD", Unit::kNone, "Name of the thread that waits."),
    OfWait<&OpenEvent::event, &EventRow::event_id>("EVENT_ID", Unit::kNone, "Number of the wait in its thread."),
    OfWait<&OpenEvent::event, &EventRow::event_name>("EVENT_NAME", Unit::kNone, "Instrument of the lock; joins setup_instruments.NAME."),
    OfWait<&OpenEvent::operation>("OPERATION", Unit::kNone, "What it waits for, such as lock or read_lock."),
    OfWait<&OpenEvent::object_name>("OBJECT_NAME", Unit::kNone, "Name of the object that is locked; NULL if it has none."),
    OfWait<&OpenEvent::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Identity of the lock; joins the *_instances tables."),
    OfWait<&OpenEvent::event, &EventRow::source>("SOURCE", Unit::kNone, "Where it waits, as file:line."),
    OfWait<&OpenEvent::event, &EventRow::timer_wait>("TIMER_WAIT", Unit::kPicoseconds, "The time so far; NULL if not timed."),
    col<&BlockedRow::holder>("HOLDER_THREAD_ID", Unit::kNone, "A thread that holds the lock; NULL if none is known.")
        .across(Across::kLocal),
    col<&BlockedRow::holder_name>("HOLDER", Unit::kNone, "Name of that thread; NULL if it has ended."),
    col<&BlockedRow::held_at>("HOLDER_SOURCE", Unit::kNone, "Where it took the lock; NULL if that is not recorded any more."),
    col<&BlockedRow::held>("HOLDER_TIMER_WAIT", Unit::kPicoseconds, "For how long it has held the lock; NULL if that is not known."),
    col<&BlockedRow::holder_event>("HOLDER_EVENT_NAME", Unit::kNone, "What it does now: its innermost event that runs."),
    col<&BlockedRow::holder_event_source>("HOLDER_EVENT_SOURCE", Unit::kNone, "Where it does so."),
    col<&BlockedRow::holder_event_wait>("HOLDER_EVENT_WAIT", Unit::kPicoseconds, "For how long it has done so."),
    col<&BlockedRow::readers>("READ_LOCKED_BY_COUNT", Unit::kCount, "Readers that hold a read-write lock."),
    col<&BlockedRow::deadlock>("DEADLOCK", Unit::kNone, "Threads that wait for each other, such as 2 -> 3 -> 2; NULL if it can go on."));

void ScanBlocked(const Snapshot& snapshot, RowSink<BlockedRow> out) {
  for (const BlockedRow& row : BlockedThreads(snapshot)) out(row);
}

constexpr auto kReasonColumns = columns(
    col<&LockReasonRow::lock_name>("LOCK_NAME", Unit::kNone, "Instrument of the lock; joins setup_instruments.NAME."),
    col<&LockReasonRow::holder_source>("HOLDER_SOURCE", Unit::kNone, "Where its holders took it."),
    col<&LockReasonRow::event_name>("EVENT_NAME", Unit::kNone, "What they waited for then; NULL for the time in no wait, as computing."),
    col<&LockReasonRow::operation>("OPERATION", Unit::kNone, "Operation of that wait."),
    col<&LockReasonRow::object_name>("OBJECT_NAME", Unit::kNone, "Name of its object; NULL if it has none."),
    col<&LockReasonRow::source>("SOURCE", Unit::kNone, "Where they waited."),
    col<&LockReasonRow::count>("COUNT_STAR", Unit::kCount, "How often, in the history tables.").combines(Combine::kDerived),
    col<&LockReasonRow::wait>("SUM_TIMER_WAIT", Unit::kPicoseconds, "Time of it in which other threads waited for the lock.")
        .combines(Combine::kDerived));

void ScanReasons(const Snapshot& snapshot, RowSink<LockReasonRow> out) {
  for (const LockReasonRow& row : LockReasons(snapshot)) out(row);
}

}  // namespace

constexpr TableDef tables::running{
    .doc = "The events that run now: open transactions, statements, stages and waits of all threads, with the time so far.",
    .key = {"THREAD_ID", "EVENT_ID"},
    .columns = columns_of<kRunningColumns>,
    .scan = scan<&ScanRunning>,
};
static_assert(ok(tables::running));

constexpr TableDef tables::blocked{
    .doc = "The threads that wait for locks now, those that wait longest first, with each holder of the lock and what it does.",
    .columns = columns_of<kBlockedColumns>,
    .scan = scan<&ScanBlocked>,
};
static_assert(ok(tables::blocked));

constexpr TableDef tables::lock_reasons{
    .doc = "Why threads had to wait for locks: what the holders did meanwhile, from the waits in the history tables, the longest first.",
    .columns = columns_of<kReasonColumns>,
    .scan = scan<&ScanReasons>,
};
static_assert(ok(tables::lock_reasons));

}  // namespace perfschema
