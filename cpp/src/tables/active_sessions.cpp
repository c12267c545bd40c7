// active_sessions: what each thread does now; the columns of active_session_history, which has many such samples. An addition of pfs.
#include "snapshot/sessions.h"
#include "tables/tables.h"

namespace perfschema {

template <>
struct EnumNames<SessionState> {
  static constexpr std::string_view kValues[] = {"ON CPU", "RUNNABLE", "WAITING", "SLEEPING", "IDLE", "UNKNOWN"};
};

namespace {

constexpr Timestamp AsTime(int64_t micros) { return {micros}; }

constexpr auto kSampleColumns = columns(
    col<&SessionRow::sample_id>("SAMPLE_ID", Unit::kNone,
                                "Number of the sample: rows of one moment have the same, and later ones a higher one."),
    col<&SessionRow::sample_micros, &AsTime>("SAMPLE_TIME", Unit::kNone, "Moment of the sample, UTC."),
    col<&SessionRow::weight>("WEIGHT", Unit::kPicoseconds, "Time of the thread that the row stands for: since the sample before."),
    col<&SessionRow::lateness>("LATENESS", Unit::kPicoseconds, "How long after it was due the sample was taken."),
    col<&SessionRow::thread_id>("THREAD_ID", Unit::kNone, "Thread; joins threads.THREAD_ID. NULL: pfs has not recorded it."),
    col<&SessionRow::processlist_id>("PROCESSLIST_ID", Unit::kNone, "Identifier of the session; NULL for a background thread."),
    col<&SessionRow::os_id>("THREAD_OS_ID", Unit::kNone, "Number that the system gave to the thread; NULL if none runs it."),
    col<&SessionRow::thread_name>("THREAD_NAME", Unit::kNone, "Name of the thread."),
    col<&SessionRow::state>(
        "THREAD_STATE", Unit::kNone,
        "What it does. WAITING: in a wait of pfs; IDLE: waits for work, in no statement and no stage; SLEEPING: blocked "
        "in no wait of pfs; UNKNOWN: /proc does not say."),
    col<&SessionRow::wait_class>("WAIT_CLASS", Unit::kNone, "State as in thread_time.STATE: computing, runnable, or the kind of wait."),
    col<&SessionRow::event_name>("EVENT_NAME", Unit::kNone, "Instrument of the innermost wait that runs; NULL if none does."),
    col<&SessionRow::event_id>("EVENT_ID", Unit::kNone, "Number of that wait in its thread."),
    col<&SessionRow::operation>("OPERATION", Unit::kNone, "Operation of the wait, such as lock, read, write."),
    col<&SessionRow::source>("SOURCE", Unit::kNone, "Call site of the wait, else of the statement, as file:line."),
    col<&SessionRow::object_schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of a table that is waited for."),
    col<&SessionRow::object_name>("OBJECT_NAME", Unit::kNone, "Name of the object that is waited for; NULL if it has none."),
    col<&SessionRow::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Identity of that object; joins the *_instances tables."),
    col<&SessionRow::wait>("TIMER_WAIT", Unit::kPicoseconds, "Time of the wait so far; NULL if it is not timed."),
    col<&SessionRow::statement_id>("STATEMENT_EVENT_ID", Unit::kNone, "EVENT_ID of the innermost statement that runs."),
    col<&SessionRow::statement_name>("STATEMENT_NAME", Unit::kNone, "Instrument of that statement."),
    col<&SessionRow::digest>("DIGEST", Unit::kNone, "Digest of that statement."),
    col<&SessionRow::digest_text>("DIGEST_TEXT", Unit::kNone, "Text of that statement without its values."),
    col<&SessionRow::statement_wait>("STATEMENT_TIMER_WAIT", Unit::kPicoseconds, "Time of the statement so far."),
    col<&SessionRow::stage>("STAGE_NAME", Unit::kNone, "Stage that the thread is in."),
    col<&SessionRow::transaction_id>("TRANSACTION_EVENT_ID", Unit::kNone, "EVENT_ID of the transaction that runs."),
    col<&SessionRow::blocker>("BLOCKING_THREAD_ID", Unit::kNone, "Thread that holds the lock; NULL if none is known.")
        .across(Across::kLocal),
    col<&SessionRow::final_blocker>("FINAL_BLOCKING_THREAD_ID", Unit::kNone, "Thread at the end of the chain of holders.")
        .across(Across::kLocal),
    col<&SessionRow::chain_depth>("CHAIN_DEPTH", Unit::kCount, "Locks between the thread and the end of that chain."),
    col<&SessionRow::is_deadlocked>("IS_DEADLOCKED", Unit::kNone, "1: the chain of holders is a circle."),
    col<&SessionRow::cpu_time>("CPU_TIME", Unit::kPicoseconds,
                               "Processor time since the thread's last row that has it; NULL in a wait that goes on."),
    col<&SessionRow::runnable_time>("RUNNABLE_TIME", Unit::kPicoseconds, "Time without a processor, likewise."));

void Scan(const Snapshot& snapshot, RowSink<SessionRow> out) { Sessions(snapshot).ForEach(out); }

}  // namespace

constexpr TableDef tables::active_sessions{
    .doc = "What each thread does now: one sample of what pfs record keeps.",
    .columns = columns_of<kSampleColumns>,
    .scan = scan<&Scan>,
};
static_assert(ok(tables::active_sessions));

}  // namespace perfschema
