#include "background/drain.h"

#include <algorithm>

#include "record/context/actors.h"
#include "snapshot/events.h"
#include "snapshot/threads.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

struct TracedTable {
  std::string_view name;
  void (*append)(const void* row, SqlText& out);
};
constexpr TracedTable kTracedTables[kEventKinds] = {{"events_waits_current", tables::AppendRowOfWaits},
                                                    {"events_stages_current", tables::AppendRowOfStages},
                                                    {"events_statements_current", tables::AppendRowOfStatements},
                                                    {"events_transactions_current", tables::AppendRowOfTransactions}};

// A Snapshot keeps the texts of what it read.
constexpr uint64_t kBytesPerSnapshot = 4u << 20, kPassesPerSnapshot = 256;

// A Snapshot finds only elements that existed when it was made.
uint64_t UsedElements() {
  uint64_t sum = 0;
  for (uint32_t id = 0; id < kArrayCount; ++id) sum += g_runtime.segment.array(static_cast<ArrayId>(id)).used.load(kAcquire);
  return sum;
}

void ForEachTraced(const Snapshot& snapshot, uint32_t kind, TraceCursor* cursor, const TraceUse& use) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kWait:
      return ForEachTracedWait(snapshot, cursor, use);
    case Kind::kStage:
      return ForEachTracedStage(snapshot, cursor, use);
    case Kind::kStatement:
      return ForEachTracedStatement(snapshot, cursor, use);
    default:
      return ForEachTracedTransaction(snapshot, cursor, use);
  }
}

}  // namespace

TraceDrain::TraceDrain(const TraceFolder& folder) : folder_(folder) {
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    beginnings_[kind] = "INSERT INTO " + std::string(kTracedTables[kind].name) + " VALUES (";
  }
}

TraceDrain::~TraceDrain() = default;

void TraceDrain::Add(uint32_t kind, const TracedRow& row) {
  std::unique_ptr<Thread>& found = threads_[row.thread_id];
  if (found == nullptr) {
    found = std::make_unique<Thread>();
    found->names.thread_id = row.thread_id;
  }
  Thread& thread = *found;
  thread.slot = row.slot;
  const size_t begin = thread.lines.size();
  thread.lines += beginnings_[kind];
  SqlText out(thread.lines);
  kTracedTables[kind].append(row.row, out);
  thread.lines += ");\n";
  const size_t bytes = thread.lines.size() - begin;
  bytes_since_snapshot_ += bytes;
  // Of ends at one END_EVENT_ID the inner event's comes first; all come after the start of that EVENT_ID.
  thread.rows.push_back({row.is_end ? row.end_event_id : row.event_id, row.is_end ? ~row.event_id : 0, begin, bytes, row.is_end, true});
}

void TraceDrain::Read(const Snapshot& snapshot, bool is_fresh) {
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    cursors_[kind].is_last_chance = is_fresh;
    ForEachTraced(snapshot, kind, &cursors_[kind], [&](const TracedRow& row) { Add(kind, row); });
  }
}

void TraceDrain::LearnNames(const Snapshot& snapshot, uint64_t thread_id, Thread& thread, const EndedThread* end) {
  ThreadRow row;
  std::string_view name;
  if (ThreadAt(snapshot, thread.slot, &row) && row.thread_id == thread_id) {
    name = row.name.view();
    thread.user = row.user ? std::string(row.user->view()) : std::string();
    thread.host = row.host ? std::string(row.host->view()) : std::string();
    if (thread.is_stopped && (row.flags & kThreadTrace) != 0) {
      thread.is_stopped = false;
      thread.file.EndPart();
    }
    thread.passes_without_row = 0;
  } else if (end != nullptr) {
    const auto text = [](const auto& bytes) { return std::string(bytes, strnlen(bytes, sizeof bytes)); };
    if (thread.is_known) return;
    thread.user = text(end->user);
    thread.host = text(end->host);
    bytes_since_snapshot_ += sizeof *end;
    thread.names.thread = NameForFile(text(end->name).substr(text(end->name).rfind('/') + 1));
    thread.names.actor = ActorForFile(thread.user, thread.host);
    thread.is_known = true;
    return;
  } else {
    ++thread.passes_without_row;
    return;
  }
  thread.names.thread = NameForFile(name.substr(name.rfind('/') + 1));
  thread.names.actor = ActorForFile(thread.user, thread.host);
  thread.is_known = true;
}

void TraceDrain::WriteRows(Thread& thread, bool all) {
  std::vector<Row>& rows = thread.rows;
  if (rows.empty()) return;
  std::sort(rows.begin(), rows.end());
  size_t count = rows.size();
  while (!all && count > 0 && rows[count - 1].is_new) --count;
  // Waits until the thread's names are known; a thread that has ended since is in the next list of ended threads.
  if (!thread.is_known && !all && thread.passes_without_row < 3) count = 0;
  uint64_t ends = 0;
  if (count != 0) {
    buffer_.clear();
    for (size_t i = 0; i < count; ++i) {
      buffer_.append(thread.lines, rows[i].begin, rows[i].bytes);
      ends += rows[i].is_end ? 1 : 0;
    }
    std::string error;
    size_t kept = 0;
    thread.last_used = passes_;
    if (!thread.is_stopped) kept = thread.file.Append(folder_, thread.names, buffer_, &error);
    if (!error.empty()) {
      CountLoss(Loss::kTraceErrors);
      SetTraceStatus(error);
      StopTraceOfActor(thread.user, thread.host);
      thread.is_stopped = true;
      thread.file.EndPart();
    }
    uint64_t written = 0;
    for (size_t i = 0; i < count && kept >= rows[i].bytes; ++i) {
      kept -= rows[i].bytes;
      written += rows[i].is_end ? 1 : 0;
    }
    if (written != 0) CountLoss(Loss::kTraceWritten, written);
    if (ends != written) CountLoss(Loss::kTraceEvents, ends - written);
  }
  std::string rest;
  for (size_t i = count; i < rows.size(); ++i) {
    const size_t begin = rest.size();
    rest.append(thread.lines, rows[i].begin, rows[i].bytes);
    rows[i].begin = begin;
    rows[i].is_new = false;
  }
  rows.erase(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(count));
  if (rest.empty() && thread.lines.capacity() <= (1u << 20)) {
    thread.lines.clear();
  } else {
    thread.lines = std::move(rest);
  }
}

void TraceDrain::CountNeverSeen(uint64_t thread_id, Thread& thread, const EndedThread* end) {
  // Events that had begun as of the last pass and are not seen now are lost. An event that begins meanwhile may be seen and not yet
  // counted as begun: so the number is too small for a while, never too large.
  uint64_t lost = 0;
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    const auto found = cursors_[kind].threads.find(thread_id);
    const uint64_t seen = found == cursors_[kind].threads.end() ? 0 : found->second.begun_seen;
    const uint64_t begun = end != nullptr ? end->traced[kind] : thread.begun_before[kind];
    if (begun > seen) lost += begun - seen;
    if (found != cursors_[kind].threads.end()) thread.begun_before[kind] = found->second.begun();
    if (const auto cut = cursors_[kind].ends_lost.find(thread_id); cut != cursors_[kind].ends_lost.end()) {
      CountLoss(Loss::kTraceEvents, cut->second);
      cursors_[kind].ends_lost.erase(cut);
    }
  }
  if (lost > thread.lost) {
    CountLoss(Loss::kTraceEvents, lost - thread.lost);
    thread.lost = lost;
  }
}

// Returns whether this thread's end was never reported, because too many threads ended at once.
bool TraceDrain::IsForgotten(uint64_t thread_id, const Thread& thread) const {
  if (passes_ % kPassesPerSnapshot != 0 || !thread.rows.empty() || thread.last_used + kPassesPerSnapshot > passes_) return false;
  ThreadRow row;
  return !ThreadAt(*snapshot_, thread.slot, &row) || row.thread_id != thread_id;
}

void TraceDrain::Forget(uint64_t thread_id) {
  for (TraceCursor& cursor : cursors_) {
    cursor.threads.erase(thread_id);
    cursor.ends_lost.erase(thread_id);
  }
  threads_.erase(thread_id);
}

uint64_t TraceDrain::Pass(std::span<const EndedThread> ended, bool is_last) {
  ++passes_;
  uint64_t given_before = 0, given = 0;
  for (const TraceCursor& cursor : cursors_) given_before += cursor.given;
  bool needs_snapshot = snapshot_ == nullptr || snapshot_elements_ != UsedElements() || bytes_since_snapshot_ > kBytesPerSnapshot ||
                        passes_ % kPassesPerSnapshot == 0;
  for (TraceCursor& cursor : cursors_) {
    needs_snapshot |= cursor.is_of_old_snapshot;
    cursor.is_of_old_snapshot = false;
  }
  if (needs_snapshot) {
    snapshot_elements_ = UsedElements();
    snapshot_ = std::make_unique<Snapshot>(OwnSegmentState().view());
    bytes_since_snapshot_ = 0;
  }
  Read(*snapshot_, needs_snapshot);
  for (const TraceCursor& cursor : cursors_) given += cursor.given;
  std::unordered_map<uint64_t, const EndedThread*> ends;
  for (const EndedThread& end : ended) {
    ends[end.thread_id] = &end;
    auto& thread = threads_[end.thread_id];
    if (thread == nullptr) thread = std::make_unique<Thread>();  // all its events passed unseen
    thread->names.thread_id = end.thread_id;
  }
  std::vector<uint64_t> gone;
  pending_ = 0;
  for (auto& [thread_id, thread] : threads_) {
    const auto found = ends.find(thread_id);
    const EndedThread* const end = found == ends.end() ? nullptr : found->second;
    if (!thread->rows.empty() || end != nullptr) LearnNames(*snapshot_, thread_id, *thread, end);
    WriteRows(*thread, is_last || end != nullptr);
    CountNeverSeen(thread_id, *thread, end);
    pending_ += thread->rows.size();
    if (end != nullptr || IsForgotten(thread_id, *thread)) gone.push_back(thread_id);
  }
  for (const uint64_t thread_id : gone) Forget(thread_id);
  return given - given_before;
}

void TraceDrain::CloseFiles(size_t most) {
  std::vector<Thread*> open;
  for (auto& [thread_id, thread] : threads_) {
    if (thread->file.is_open()) open.push_back(thread.get());
  }
  if (open.size() <= most) return;
  std::sort(open.begin(), open.end(), [](const Thread* a, const Thread* b) { return a->last_used < b->last_used; });
  for (size_t i = 0; i < open.size() - most; ++i) open[i]->file.Close();
}

}  // namespace perfschema
