// thread_time: where the time of threads went. This table is an addition of pfs.
#include "snapshot/thread_time.h"

#include "tables/tables.h"

namespace perfschema {
namespace {

constexpr auto kThreadTimeColumns =
    columns(col<&ThreadTimeRow::role>(
                "NAME", Unit::kNone,
                "Name of the threads, with * for the numbers in it; (not seen): processor time of no thread here; (process): without pfs."),
            col<&ThreadTimeRow::state>(
                "STATE", Unit::kNone,
                "State: computing; runnable, without a processor; the beginning of the names of waits; elsewhere, blocked in no "
                "wait of pfs; not seen, if killed. (process): starting, ending, before and after pfs."),
            col<&ThreadTimeRow::threads>("COUNT_THREADS", Unit::kCount, "Threads of the name, those that have ended and those that live."),
            col<&ThreadTimeRow::time>("SUM_TIMER_WAIT", Unit::kPicoseconds,
                                      "Time of these threads in the state. The states of a name add up to the lives of its threads."));

void Scan(const Snapshot& snapshot, RowSink<ThreadTimeRow> out) {
  for (const ThreadTimeRow& row : ThreadTimes(snapshot)) out(row);
}

}  // namespace

constexpr TableDef tables::thread_time{
    .doc = "Where the time of threads went: all of it, by what the threads did.",
    .key = {"NAME", "STATE"},
    .columns = columns_of<kThreadTimeColumns>,
    .scan = scan<&Scan>,
};
static_assert(ok(tables::thread_time));

}  // namespace perfschema
