#include "snapshot/sessions.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/random.h"
#include "base/time_states.h"
#include "shm/layout.h"
#include "snapshot/digests.h"
#include "snapshot/events.h"
#include "snapshot/moment.h"
#include "snapshot/slots.h"

namespace perfschema {
namespace {

constexpr uint64_t kMostTextBytes = 8 << 20;  // of texts that the sampler keeps before it reads them again
constexpr uint64_t kMostDepth = 64;           // of a chain of locks
constexpr uint64_t kTicksBetweenSearches = 4;
constexpr uint64_t kSecond = 1'000'000'000'000;

// Returns whether a thread that waits so waits for work, if no statement and no stage runs in it.
bool IsIdle(uint32_t state, std::string_view operation) {
  switch (static_cast<WaitState>(state)) {
    case WaitState::kCond:
    case WaitState::kIdle:
    case WaitState::kSleep:
    case WaitState::kJoin:
    case WaitState::kPythonJoin:
    case WaitState::kChild:
    case WaitState::kSignal:
    case WaitState::kMessage:
    case WaitState::kAio:
      return true;
    default:
      return operation == kOperations[static_cast<uint32_t>(Operation::kSelect)].shown;
  }
}

std::optional<uint64_t> Since(uint64_t start, uint64_t now) {  // `start`: 0 = not timed
  return start == 0 ? std::optional<uint64_t>() : std::max(start, now) - start;
}

}  // namespace

void SessionRows::Clear() {
  rows_.clear();
  moments_.clear();
  places_.clear();
}

uint32_t SessionRows::Add(const SessionRow& row, bool has_weight) {
  rows_.push_back(row);
  const auto number = static_cast<uint32_t>(rows_.size() - 1);
  places_.push_back({number, static_cast<uint32_t>(moments_.size() - 1), 0, 0, false, has_weight});
  return number;
}

void SessionRows::Repeat(uint32_t number, const std::optional<uint64_t>& wait, const std::optional<uint64_t>& statement_wait) {
  places_.push_back({number, static_cast<uint32_t>(moments_.size() - 1), wait.value_or(0), statement_wait.value_or(0), true, false});
}

void SessionRows::Fill(const Place& place, SessionRow* row) const {
  *row = rows_[place.row];
  const Moment& moment = moments_[place.moment];
  row->sample_id = moment.id;
  row->sample_micros = moment.unix_micros;
  row->lateness = moment.lateness;
  if (!place.has_weight) row->weight = moment.weight;
  if (!place.is_repeated) return;
  if (row->wait) row->wait = place.wait;
  if (row->statement_wait) row->statement_wait = place.statement_wait;
  row->cpu_time = row->runnable_time = {};
}

SessionSampler::SessionSampler(const SegmentView& view, bool keeps_files) : view_(view), kernel_(view.header(), keeps_files) {
  RenewSnapshot();
}

SessionSampler::SessionSampler(const Snapshot& snapshot)
    : view_(snapshot.view()), kernel_(snapshot.header(), false), snapshot_(&snapshot) {}

SessionSampler::~SessionSampler() {
  for (Thread& thread : threads_) kernel_.Close(&thread.kernel);
  for (auto& [tid, thread] : strangers_) kernel_.Close(&thread);
}

void SessionSampler::RenewSnapshot() {
  classes_asked_ = view_.used(ArrayId::kClasses);
  snapshots_.push_back(std::make_unique<Snapshot>(view_));
  snapshot_ = snapshots_.back().get();
}

void SessionSampler::Forget() {
  for (Thread& thread : threads_) thread.number = kNone;
  if (snapshots_.size() == 1 && text_bytes_ < kMostTextBytes) return;
  text_bytes_ = 0;
  digests_.clear();
  for (Thread& thread : threads_) {
    thread.name_seq = 1;
    thread.waits = thread.statement = thread.transaction = {};
  }
  RenewSnapshot();
  snapshots_.erase(snapshots_.begin(), snapshots_.end() - 1);
}

// Returns an instrument, also one that was registered after the snapshot was made.
const ClassRow* SessionSampler::ClassAt(uint64_t index) {
  const ClassRow* const found = snapshot_->ClassAt(index);
  if (found != nullptr || index == 0 || snapshots_.empty() || view_.used(ArrayId::kClasses) == classes_asked_) return found;
  RenewSnapshot();
  return snapshot_->ClassAt(index);
}

uint32_t SessionSampler::StateOf(uint64_t index, const ClassRow& instrument) {
  if (states_.size() <= index) states_.resize(index + 1, kNone);
  if (states_[index] == kNone) states_[index] = WaitStateOf(instrument.name.view());
  return states_[index];
}

bool SessionSampler::Draw(uint64_t part, uint64_t whole) { return whole != 0 && NextRandom(&random_) % whole < part; }

void SessionSampler::MeetThreads() {
  const ArrayView<ShmThread> shared(view_, ArrayId::kThreads);
  const uint64_t used = shared.used();
  if (threads_.size() < used) threads_.resize(used);
  for (uint64_t slot = 1; slot < used; ++slot) {
    const ShmThread* const shm = shared.at(slot);
    if (shm == nullptr) break;
    Thread& thread = threads_[slot];
    const uint64_t id = shm->thread_id.load(kAcquire);  // pairs with MakeThread's last store
    const uint64_t tid = shm->os_id.load(kAcquire);
    if (thread.id != id || thread.kernel.tid != tid) {
      kernel_.Close(&thread.kernel);
      slots_.erase(thread.id);
      thread = {};
      thread.id = id;
      thread.kernel.tid = tid;
      thread.row.thread_id = id;
      if (tid != 0) thread.row.os_id = tid;
      if (id != 0) slots_[id] = static_cast<uint32_t>(slot);
    }
    if (id == 0) continue;
    SessionRow& row = thread.row;
    if (const uint32_t seq = shm->seq.load(kAcquire); seq != thread.name_seq) {
      uint64_t name[std::size(ShmThread{}.name)];
      if (snapshot_->TryRead(shm->seq, [&] { LoadWords(shm->name, name); })) {
        row.thread_name = snapshot_->KeepWords(name);
        text_bytes_ += sizeof name;
        thread.name_seq = seq;
        thread.is_changed = true;
        row.processlist_id.reset();
        if ((shm->flags.load(kAcquire) & kThreadForeground) != 0) row.processlist_id = shm->processlist_id.load(kAcquire);
      }
    }
    if (const uint32_t stage = shm->stage.load(kAcquire); stage != thread.stage) {
      thread.stage = stage;
      thread.is_changed = true;
      row.stage.reset();
      if (const ClassRow* const of = ClassAt(stage); of != nullptr && of->kind() == Kind::kStage) row.stage = of->name;
    }
  }
}

// Finds the youngest open event of each thread. `open` says where it is kept.
void SessionSampler::ScanPool(Kind kind, uint64_t now, Open Thread::*open) {
  const PoolView pool(view_, kind);
  std::vector<Seen>& seen = seen_[static_cast<uint32_t>(kind)];
  if (seen.size() < pool.used()) seen.resize(pool.used());
  for (uint64_t i = 1; i < pool.used(); ++i) {
    const ShmChunk* const chunk = pool.chunk(i);
    if (chunk == nullptr) break;
    const uint32_t lap = chunk->lap.load(kAcquire);  // pairs with the taker's store of the new lap
    if (lap == 0 || (lap & 1) != 0) continue;
    Seen& known = seen[i];
    if (known.lap != lap) {
      const PoolView::Records records = pool.records(i);  // a search: once a lap
      if (records.count == 0) continue;
      known = {lap, chunk->thread.load(kAcquire), chunk->thread_id.load(kAcquire), 0, records};
    }
    const PoolView::Records& records = known.records;
    if (known.settled == ~uint64_t{0} >> (64 - records.count)) continue;
    uint32_t not_begun = 0;
    for (auto n = static_cast<uint32_t>(std::countr_one(known.settled)); n < records.count && not_begun < 2; ++n) {
      if ((known.settled >> n & 1) != 0) continue;
      const ShmRecord& record = pool.Next(records.first, n);
      const uint64_t state = record.state.load(kAcquire);  // pairs with the owner's release store
      if (state >> 32 != lap) {
        ++not_begun;  // the second place of a wait may be written before the first
        continue;
      }
      if ((state & kRecordOpen) == 0) {
        known.settled |= uint64_t{1} << n;
        continue;
      }
      Thread* const thread = known.slot < threads_.size() ? &threads_[known.slot] : nullptr;
      if (thread == nullptr || thread->id != known.thread_id || thread->id == 0) continue;
      const uint64_t event_id = record.event_id.load(kAcquire);
      Open& place = thread->*open;
      if (place.tick == tick_ && place.event_id > event_id) continue;
      const bool is_same = place.event_id == event_id && place.record == &record && place.lap == lap;
      const uint32_t timer = std::min<uint32_t>((state & kFlagTimerMask) >> kFlagTimerShift, kTimerCount - 1);
      if (!is_same) {
        place = {tick_, event_id, 0, state, lap, &record, chunk};
        if ((state & kRecordTimed) != 0) {
          place.start = view_.header().timers[timer].Picos(record.start_ticks.load(kAcquire));
        } else if (!snapshots_.empty()) {
          place.start = now;  // it began between two samples
        }
        Meet(kind, pool, record, pool.Capacity(records, n), thread);
      } else if (kind == Kind::kStatement && !thread->row.digest) {
        Meet(kind, pool, record, pool.Capacity(records, n), thread);  // its text may have come later
      }
      place.tick = tick_;
      // A record that has closed meanwhile was open a moment ago, but its words may be those of the next lap.
      if (chunk->lap.load(kRelaxed) != lap) place.tick = 0;
    }
  }
}

void SessionSampler::Meet(Kind kind, const PoolView& pool, const ShmRecord& record, uint64_t capacity, Thread* thread) {
  SessionRow& row = thread->row;
  thread->is_changed = true;
  const uint64_t what = record.what.load(kAcquire);
  const ClassRow* const instrument = ClassAt(what & 0xffff);
  if (kind == Kind::kWait) {
    row.event_name.reset();
    row.operation.reset();
    if (instrument == nullptr) return;
    row.event_name = instrument->name;
    const uint32_t state = StateOf(what & 0xffff, *instrument);
    row.wait_class = kWaitStateNames[state];
    row.source = snapshot_->SourceText(what >> 32);
    if (const uint64_t operation = what >> 16 & 0xff; operation < std::size(kOperations)) row.operation = kOperations[operation].shown;
    thread->may_be_idle = IsIdle(state, row.operation ? row.operation->view() : "");
    thread->may_be_blocked = HasOneHolder(instrument->family);
    MeetWait(record, capacity, thread->waits.state, &row);
  } else if (kind == Kind::kStatement) {
    row.statement_name.reset();
    if (instrument != nullptr) row.statement_name = instrument->name;
    MeetStatement(pool, static_cast<const ShmStatementRecord&>(record), &row);
  }
}

void SessionSampler::MeetWait(const ShmRecord& record, uint64_t capacity, uint64_t state, SessionRow* row) {
  row->object = record.object.load(kAcquire);
  row->object_schema.reset();
  row->object_name.reset();
  if ((state & kRecordHasName) == 0 || capacity < sizeof(ShmWaitRecord) + sizeof(ShmWaitDetails)) return;
  const ShmWaitDetails& details = static_cast<const ShmWaitRecord&>(record).details();
  DescribeObject(*snapshot_, state, details.flags_and_name.load(kAcquire), details.version_and_type.load(kAcquire), &row->object_schema,
                 &row->object_name);
  if (row->object_name) text_bytes_ += row->object_name->size;
}

void SessionSampler::MeetStatement(const PoolView& pool, const ShmStatementRecord& record, SessionRow* row) {
  row->digest.reset();
  row->digest_text.reset();
  std::vector<char>& buffer = snapshot_->buffer();
  const bool is_whole = ReadWhole(record.seq, [&] {
    const uint64_t sql_bytes = record.sql_bytes.load(kAcquire), token_bytes = record.digest_bytes.load(kAcquire);
    const PoolView::Texts texts = pool.TextsOf(record, sql_bytes, token_bytes);
    const uint64_t before = std::min(TextCapacity(sql_bytes), texts.capacity);
    buffer.resize(std::min(token_bytes, texts.capacity - before));
    CopyFromShared(buffer.data(), static_cast<const char*>(texts.first) + before, buffer.size());
  });
  if (!is_whole || buffer.empty()) return;
  const auto [found, is_new] = digests_.try_emplace(std::string(buffer.data(), buffer.size()));
  if (is_new) {
    DescribeTokens(*snapshot_, found->first, &found->second.digest, &found->second.text);
    text_bytes_ += 4 * found->first.size();
  }
  row->digest = found->second.digest;
  row->digest_text = found->second.text;
}

SessionState SessionSampler::OffCpuState(const SessionRow& row, const KernelThreads::Thread& kernel) {
  if (kernel.tid == 0) return row.statement_id ? SessionState::kSleeping : SessionState::kIdle;  // no thread of the system runs it
  if (kernel.state == 0) return SessionState::kUnknown;
  if (kernel.state != 'R') return SessionState::kSleeping;
  // R: it runs or waits for a processor. The kernel says how long it did either since the last reading.
  const uint64_t computed = kernel.computed_now.value_or(1), waited = kernel.waited_now.value_or(0);
  return Draw(waited, computed + waited) ? SessionState::kRunnable : SessionState::kOnCpu;
}

// Makes the thread's row that of the sample.
void SessionSampler::Describe(const Moment& moment, Thread* thread) {
  SessionRow& row = thread->row;
  const auto change = [&](auto* value, const auto& now) {
    thread->is_changed |= *value != now;
    *value = now;
  };
  const auto id_of = [&](const Open& open) { return open.tick == tick_ ? std::optional<uint64_t>(open.event_id) : std::nullopt; };
  row.cpu_time = row.runnable_time = {};
  change(&row.statement_id, id_of(thread->statement));
  change(&row.transaction_id, id_of(thread->transaction));
  row.statement_wait = {};
  if (row.statement_id) {
    row.statement_wait = Since(thread->statement.start, moment.now);
  } else if (thread->statement.event_id != 0) {
    row.statement_name = {};
    row.digest = {};
    row.digest_text = {};
    thread->statement = {};
  }
  const bool waits = thread->waits.tick == tick_ && row.event_name;
  const bool is_same = waits && row.event_id == thread->waits.event_id;
  row.wait = waits ? Since(thread->waits.start, moment.now) : std::nullopt;
  // A thread that waits is asked about once a second: the kernel costs ten times as much as the segment.
  if (kernel_.is_there() && thread->kernel.tid != 0 && !is_same && (!waits || moment.now >= thread->kernel.read_at + kSecond)) {
    kernel_.Read(&thread->kernel, !waits);
    thread->kernel.read_at = moment.now;
    row.cpu_time = thread->kernel.computed_now;
    row.runnable_time = thread->kernel.waited_now;
    thread->is_changed = true;
  }
  if (waits) {
    row.event_id = thread->waits.event_id;
    change(&row.state, !row.statement_id && !row.stage && thread->may_be_idle ? SessionState::kIdle : SessionState::kWaiting);
  } else {
    thread->waits = {};
    thread->is_changed = true;
    thread->may_be_blocked = false;
    row.event_name = {};
    row.event_id = row.object = {};
    row.operation = {};
    row.object_schema = {};
    row.object_name = {};
    row.source = {};
    row.state = OffCpuState(row, thread->kernel);
    constexpr Text<64> kNames[] = {"computing", "runnable", "", "elsewhere", "elsewhere", "not seen"};
    row.wait_class = kNames[static_cast<uint32_t>(row.state)];
  }
  if (!row.source && row.statement_id) row.source = snapshot_->SourceText(thread->statement.record->what.load(kAcquire) >> 32);
}

// Threads that pfs has not recorded. Their times are exact: each state has a row with the time that the kernel has counted.
void SessionSampler::AddStrangers(const Moment& moment, SessionRows* rows) {
  std::unordered_set<uint64_t> known;
  for (const Thread& thread : threads_) known.insert(thread.kernel.tid);
  const uint64_t since = strangers_at_ == 0 ? 0 : moment.now - strangers_at_;
  strangers_at_ = moment.now;
  std::unordered_map<uint64_t, KernelThreads::Thread> before = std::move(strangers_);
  strangers_.clear();
  for (const uint64_t tid : kernel_.List()) {
    if (known.count(tid) != 0 || tid == moment.left_out) continue;
    KernelThreads::Thread& thread = strangers_[tid];
    if (const auto found = before.find(tid); found != before.end()) {
      thread = found->second;
      before.erase(found);
    }
    thread.tid = tid;
    kernel_.Read(&thread, false);
    if (!thread.computed_now || since == 0) continue;
    const std::string name = kernel_.NameOf(tid);
    SessionRow row{};
    row.os_id = tid;
    row.thread_name = snapshot_->Keep(name);
    text_bytes_ += name.size();
    const uint64_t computed = std::min(*thread.computed_now, since);
    const uint64_t waited = std::min(thread.waited_now.value_or(0), since - computed);
    const auto add = [&](SessionState state, const char* wait_class, uint64_t time) {
      row.state = state;
      row.wait_class = wait_class;
      row.weight = time;
      if (time != 0) rows->Add(row, true);
    };
    add(SessionState::kSleeping, "elsewhere", since - computed - waited);
    add(SessionState::kOnCpu, "computing", computed);
    add(SessionState::kRunnable, "runnable", waited);
  }
  for (auto& [tid, thread] : before) kernel_.Close(&thread);
}

const ShmInstance* SessionSampler::InstanceOf(uint64_t identity) {
  const ArrayView<ShmInstance>& shared = snapshot_->array<ArrayId::kInstances>();
  const auto find = [&]() -> const ShmInstance* {
    const auto found = instances_.find(identity);
    const ShmInstance* const shm = found == instances_.end() ? nullptr : shared.at(found->second);
    const bool is_it = shm != nullptr && shm->identity.load(kAcquire) == identity && (shm->flags.load(kAcquire) & kFlagDead) == 0;
    return is_it ? shm : nullptr;
  };
  const ShmInstance* const found = find();
  if (found != nullptr || (instances_tick_ != 0 && tick_ < instances_tick_ + kTicksBetweenSearches)) return found;
  instances_tick_ = tick_;
  instances_.clear();
  const uint64_t used = shared.UsedNow();
  for (uint64_t i = 1; i < used; ++i) {
    const ShmInstance* const shm = shared.at(i);
    if (shm == nullptr) break;
    if (shm->class_index.load(kAcquire) != 0 && (shm->flags.load(kAcquire) & kFlagDead) == 0)
      instances_[shm->identity.load(kAcquire)] = static_cast<uint32_t>(i);
  }
  return find();
}

SessionSampler::Thread* SessionSampler::ThreadOf(uint64_t thread_id) {
  const auto found = slots_.find(thread_id);
  return found == slots_.end() ? nullptr : &threads_[found->second];
}

// Finds who holds the locks. A wait that still runs after all owners were read ran all the time. So a chain is one, and no two moments
// mixed.
void SessionSampler::FindBlockers() {
  for (Lock& lock : locks_) {
    const ShmInstance* const instance = InstanceOf(*lock.thread->row.object);
    lock.owner = instance == nullptr ? 0 : instance->owner.load(kAcquire) & kOwnerThreadMask;
  }
  for (const Lock& lock : locks_) {
    SessionRow& row = lock.thread->row;
    const Open& wait = lock.thread->waits;
    const bool goes_on = wait.record->state.load(kAcquire) == wait.state && wait.chunk->lap.load(kRelaxed) == wait.lap;
    row.blocker = row.final_blocker = row.chain_depth = {};
    row.is_deadlocked = 0;
    lock.thread->is_changed = true;
    const Thread* const holder = ThreadOf(lock.owner);
    if (!goes_on || lock.owner == *row.thread_id || holder == nullptr) continue;
    // The holder has been given the lock since: its wait for it is over.
    if (holder->waits.tick == tick_ && holder->row.object == row.object && holder->may_be_blocked) continue;
    row.blocker = lock.owner;
  }
  for (const Lock& lock : locks_) {
    SessionRow& row = lock.thread->row;
    if (!row.blocker) continue;
    const auto next = [&](uint64_t thread_id) {
      const Thread* const thread = ThreadOf(thread_id);
      const bool is_blocked = thread != nullptr && thread->waits.tick == tick_ && thread->may_be_blocked;
      return is_blocked ? thread->row.blocker : std::nullopt;
    };
    uint64_t at = *row.blocker, depth = 1;
    std::unordered_set<uint64_t> met = {*row.thread_id};
    while (met.insert(at).second && depth < kMostDepth && next(at)) {
      at = *next(at);
      ++depth;
    }
    row.is_deadlocked = next(at) && depth < kMostDepth ? 1 : 0;
    row.final_blocker = at;
    row.chain_depth = depth;
  }
}

void SessionSampler::Sample(const Moment& moment, SessionRows* rows) {
  ++tick_;
  rows->Begin(moment);
  MeetThreads();
  ScanPool(Kind::kWait, moment.now, &Thread::waits);
  ScanPool(Kind::kStatement, moment.now, &Thread::statement);
  ScanPool(Kind::kTransaction, moment.now, &Thread::transaction);
  locks_.clear();
  for (Thread& thread : threads_) {
    if (thread.id == 0) continue;
    Describe(moment, &thread);
    if (thread.may_be_blocked && thread.row.object) {
      locks_.push_back({&thread, 0});
    } else if (thread.row.blocker) {
      thread.row.blocker = thread.row.final_blocker = thread.row.chain_depth = {};
      thread.row.is_deadlocked = 0;
    }
  }
  FindBlockers();
  for (Thread& thread : threads_) {
    if (thread.id == 0 || (moment.left_out != 0 && thread.kernel.tid == moment.left_out)) continue;
    if (thread.is_changed || thread.number == kNone) {
      thread.number = rows->Add(thread.row);
    } else {
      rows->Repeat(thread.number, thread.row.wait, thread.row.statement_wait);
    }
    thread.is_changed = false;
  }
  if (moment.lists_strangers && kernel_.is_there()) AddStrangers(moment, rows);
}

SessionRows Sessions(const Snapshot& snapshot) {
  SessionRows rows;
  if (!snapshot.ok()) return rows;
  SessionSampler sampler(snapshot);
  const uint64_t now = ReadMoment::Now(snapshot.header());
  const auto micros = static_cast<int64_t>(snapshot.header().epoch_unix_micros + now / 1'000'000);
  SessionSampler::Moment moment{};
  moment.id = static_cast<uint64_t>(micros);
  moment.unix_micros = micros;
  moment.now = now;
  sampler.Sample(moment, &rows);
  return rows;
}

}  // namespace perfschema
