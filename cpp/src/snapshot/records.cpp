// The three views of wait records. What belongs to which is the table under "Protocols" in docs/architecture.md.
//
// First the heads of all chunks, then the records. For the views of one thread its chunks are read from the newest
// record back: what is older cannot change into something newer, so events never seem to overlap that did not. For
// history_long the oldest chunk comes first: that is the order in which chunks are taken away, and a reader that is
// ahead of the takers loses none.
#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "snapshot/snapshot.h"

namespace perfschema {

struct Snapshot::ChunkHead {
  uint32_t index;
  uint32_t lap;
  uint32_t slot;
  uint64_t thread_id;
  uint64_t taken;
  uint64_t first_event_id;  // orders the chunks of one thread
};

// A record, whole. Words of the second line are zero unless `state` says that they are used.
struct Snapshot::WaitCopy {
  uint64_t thread_id;
  uint64_t state, event_id, start_ticks, end_ticks, object, what, nesting_event_id, end_info;
  uint64_t bytes, flags_and_name, version_and_type, index_name;
  uint64_t finish;  // when it finished, for sorting
  uint64_t place;   // position in the order of chunks

  bool is_open() const { return (state & kRecordOpen) != 0; }
  bool is_timed() const { return (state & kRecordTimed) != 0; }
  uint64_t end_event_id() const { return event_id + (end_info & 0xffffffffu); }
  uint32_t nesting_type() const { return what >> 24 & 0xff; }
  // The timer that the event began with, whatever setup_timers says now.
  uint32_t timer() const { return std::min<uint32_t>((state & kFlagTimerMask) >> kFlagTimerShift, kTimerCount - 1); }
  uint64_t StartPicos(const ShmHeader& header) const { return header.timers[timer()].Picos(start_ticks); }
  uint64_t WaitPicos(const ShmHeader& header) const {
    return end_ticks < start_ticks ? 0 : header.timers[timer()].Duration(end_ticks - start_ticks);
  }
};

// What a view wants of the records, so that most of them are left after a look at two words.
// Threads: external lock.
struct Snapshot::WaitFilter {
  uint32_t view;
  uint64_t bits = 0;  // of the state that a record must have
  bool newest_first = true;
  bool wants_open = false;   // besides closed ones
  uint64_t newest_id = 0;    // youngest event that was met, wanted or not: the first one if the newest comes first
  uint64_t from_end_id = 0;  // closed events below do not matter any more
  uint64_t after_id = 0;     // the same by EVENT_ID
};

namespace {

constexpr uint64_t kSecondLine = kRecordHasBytes | kRecordHasFlags | kRecordHasName;

// True if the whole record was copied: it is wanted, and did not change meanwhile.
template <typename Copy, typename Filter>
bool CopyRecord(const ShmWaitRecord& record, uint32_t lap, Filter* filter, Copy* copy) {
  // A record changes twice in its life (open, closed) and then with the chunk's lap only.
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint64_t state = record.state.load(kAcquire);  // pairs with the owner's release store
    if ((state & (kRecordOpen | kRecordClosed)) == 0) return false;
#if !defined(PFS_BREAK_SEQLOCK)  // negative control of the torn-read test: this and the later checks removed
    if (state >> 32 != lap) return false;
#endif
    copy->state = state;
    copy->event_id = record.event_id.load(kAcquire);
    copy->end_info = record.end_info.load(kAcquire);
    filter->newest_id = std::max(filter->newest_id, copy->event_id);
    if ((state & filter->bits) != filter->bits) return false;
    if (copy->is_open()) {
      if (!filter->wants_open) return false;
    } else {
      const uint64_t end_event_id = copy->end_event_id();
      if (end_event_id < filter->from_end_id || copy->event_id <= filter->after_id) return false;
      // What finished after the newest event was read would leave a gap before it.
      if (filter->newest_first && end_event_id > filter->newest_id) return false;
    }
    copy->start_ticks = record.start_ticks.load(kAcquire);
    copy->end_ticks = record.end_ticks.load(kAcquire);
    copy->object = record.object.load(kAcquire);
    copy->what = record.what.load(kAcquire);
    copy->nesting_event_id = record.nesting_event_id.load(kAcquire);
    const bool has_more = (state & kSecondLine) != 0;
    copy->bytes = has_more ? record.bytes.load(kAcquire) : 0;
    copy->flags_and_name = has_more ? record.flags_and_name.load(kAcquire) : 0;
    copy->version_and_type = has_more ? record.version_and_type.load(kAcquire) : 0;
    copy->index_name = (state & kRecordHasIndex) != 0 ? record.index_name.load(kAcquire) : 0;
#if defined(PFS_BREAK_SEQLOCK)
    (void)lap;
    return true;
#endif
    if (record.state.load(kRelaxed) == state) return true;
  }
  return false;
}

}  // namespace

// Chunks with events in them, the newest first, without holes: a thread may take a chunk that one look has passed and
// then one that it has not. So there are two looks, and of each thread only what is not younger than its youngest chunk
// in the first: that was all there when the second began.
std::vector<Snapshot::ChunkHead> Snapshot::ChunkHeads() const {
  std::vector<ChunkHead> first = LookAtChunks();
  std::vector<ChunkHead> heads;
  // Once more if we were kept from looking for so long that much is new.
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::unordered_map<uint64_t, uint64_t> youngest;
    for (const ChunkHead& head : first)
      youngest[head.thread_id] = std::max(youngest[head.thread_id], head.first_event_id);
    std::vector<ChunkHead> second = LookAtChunks();
    heads.clear();
    std::unordered_set<uint64_t> found;
    for (const ChunkHead& head : second) {
      const auto limit = youngest.find(head.thread_id);
      if (limit == youngest.end() || head.first_event_id > limit->second) continue;
      heads.push_back(head);
      found.insert(head.thread_id);
    }
    if (found.size() == youngest.size() && (second.size() - heads.size()) * 8 <= second.size()) break;
    first = std::move(second);
  }
  // `taken` is the same for all if there is no cycle counter worth the name.
  std::sort(heads.begin(), heads.end(), [](const ChunkHead& a, const ChunkHead& b) {
    return std::tie(a.taken, a.thread_id, a.first_event_id) > std::tie(b.taken, b.thread_id, b.first_event_id);
  });
  return heads;
}

std::vector<Snapshot::ChunkHead> Snapshot::LookAtChunks() const {
  std::vector<ChunkHead> heads;
  if (!ok_ || !records_.ok() || !records_.is_packed()) return heads;
  const uint64_t used = std::min(chunks_.used(), records_.capacity() / kRecordPitch);
  heads.reserve(used);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmChunk* chunk = chunks_.at(i);
    if (chunk == nullptr) break;
    ChunkHead head;
    head.index = static_cast<uint32_t>(i);
    head.lap = chunk->lap.load(kAcquire);  // pairs with the taker's store of the new lap
    head.slot = chunk->thread.load(kAcquire);
    head.thread_id = chunk->thread_id.load(kAcquire);
    head.taken = chunk->taken.load(kAcquire);
    if (head.lap == 0 || (head.lap & 1) != 0 || head.thread_id == 0) continue;
    const ShmWaitRecord* first = records_.at(i * kRecordPitch);
    if (first == nullptr || first->state.load(kAcquire) >> 32 != head.lap) continue;  // nothing in it yet
    head.first_event_id = first->event_id.load(kAcquire);
    if (chunk->lap.load(kRelaxed) == head.lap) heads.push_back(head);
  }
  return heads;
}

bool Snapshot::IsLive(const ChunkHead& head) const {
  const ShmThread* thread = threads_.at(head.slot);
  return thread != nullptr && thread->thread_id.load(kAcquire) == head.thread_id;
}

// Appends the records of a chunk that the filter wants. False, and nothing appended: the chunk changed hands.
bool Snapshot::CopyChunk(const ChunkHead& head, WaitFilter* filter, std::vector<WaitCopy>* copies) const {
  const ShmChunk& chunk = *chunks_.at(head.index);
  const ShmWaitRecord* records = records_.at(uint64_t{head.index} * kRecordPitch);
  const size_t size_before = copies->size();
  WaitCopy copy{};
  copy.thread_id = head.thread_id;
  for (uint32_t n = 0; n < kRecordsPerChunk; ++n) {
    const uint32_t i = filter->newest_first ? kRecordsPerChunk - 1 - n : n;
    if (!CopyRecord(records[i], head.lap, filter, &copy)) continue;
    copy.place = i;
    copies->push_back(copy);
  }
  // The mask after the records: a TRUNCATE that ended before this reading began is seen.
  const uint64_t hidden = chunk.hidden[filter->view].load(kAcquire);
#if !defined(PFS_BREAK_SEQLOCK)
  if (chunk.lap.load(kRelaxed) != head.lap) {
    copies->resize(size_before);
    return false;
  }
#endif
  if (hidden >> 32 == head.lap && static_cast<uint32_t>(hidden) != 0) {
    const auto is_hidden = [&](const WaitCopy& c) { return (hidden >> c.place & 1) != 0; };
    copies->erase(std::remove_if(copies->begin() + static_cast<ptrdiff_t>(size_before), copies->end(), is_hidden),
                  copies->end());
  }
  return true;
}

void Snapshot::EmitWait(const WaitCopy& copy, const std::function<void(const WaitRow&)>& use) const {
  const ClassRow* instrument = ClassAt(copy.what & 0xffff);
  const uint64_t operation = copy.what >> 16 & 0xff;
  if (instrument == nullptr || operation >= std::size(kOperations)) return;  // younger than this snapshot, or damaged
  const bool is_open = copy.is_open();
  WaitRow row{};
  row.thread_id = copy.thread_id;
  row.event_id = copy.event_id;
  if (!is_open) row.end_event_id = copy.end_event_id();
  row.event_name = instrument->name;
  row.source = SourceText(copy.what >> 32);
  if (copy.is_timed()) {
    row.timer_start = copy.StartPicos(header());
    if (!is_open) {
      row.timer_wait = copy.WaitPicos(header());
      row.timer_end = *row.timer_start + *row.timer_wait;
    }
  }
  if (!is_open && (copy.state & kRecordHasSpins) != 0) row.spins = static_cast<uint32_t>(copy.end_info >> 32);
  if ((copy.state & kRecordHasName) != 0) {
    std::string_view name;
    if (CopyName(static_cast<uint32_t>(copy.flags_and_name >> 32), static_cast<uint32_t>(copy.version_and_type), &name)) {
      const size_t end = (copy.state & kRecordHasSchema) != 0 ? name.find('\0') : std::string_view::npos;
      if (end != std::string_view::npos) {
        if (end != 0) row.object_schema = name.substr(0, end);
        name.remove_prefix(end + 1);
        name = name.substr(0, name.find('\0'));
      }
      if (end == std::string_view::npos || !name.empty()) row.object_name = name;
    }
  }
  const std::string_view object_type = kFamilies[static_cast<int>(instrument->family)].object_type;
  if (!object_type.empty()) row.object_type = object_type;
  if ((copy.state & kRecordHasName) != 0) {
    const uint64_t type = copy.version_and_type >> 32;
    if (type > 0 && type < std::size(kObjectTypeNames)) row.object_type = kObjectTypeNames[type];
  }
  if ((copy.state & kRecordHasIndex) != 0) {
    std::string_view name;
    if (CopyName(static_cast<uint32_t>(copy.index_name >> 32), static_cast<uint32_t>(copy.index_name), &name)) row.index_name = name;
  }
  row.object = copy.object;
  if (copy.nesting_event_id != 0) {
    row.nesting_event_id = copy.nesting_event_id;
    const uint32_t type = copy.nesting_type();
    if (type >= kNestingTransaction && type <= kNestingWait)
      row.nesting_type = static_cast<NestingType>(type - kNestingTransaction);
  }
  row.operation = kOperations[operation].shown;
  if ((copy.state & kRecordHasBytes) != 0) row.number_of_bytes = static_cast<int64_t>(copy.bytes);
  if ((copy.state & kRecordHasFlags) != 0) row.flags = static_cast<uint32_t>(copy.flags_and_name);
  use(row);
}

// Reads the records of each live thread from the newest chunk back. select(&copies, &filter) runs after each chunk: it
// takes out what the view does not show, as far as is known, and sharpens the filter. The rest is emitted by EVENT_ID.
// A view has `enough` rows a thread.
template <typename Select>
void Snapshot::ForEachLiveThreadsWaits(const WaitFilter& start, uint64_t enough, Select select,
                                       const std::function<void(const WaitRow&)>& use) const {
  const auto by_thread_newest_first = [](const ChunkHead& a, const ChunkHead& b) {
    return a.thread_id != b.thread_id ? a.thread_id < b.thread_id : a.first_event_id > b.first_event_id;
  };
  std::vector<ChunkHead> heads = ChunkHeads();
  heads.erase(std::remove_if(heads.begin(), heads.end(), [&](const ChunkHead& head) { return !IsLive(head); }),
              heads.end());
  std::sort(heads.begin(), heads.end(), by_thread_newest_first);
  std::vector<WaitCopy> copies;
  for (size_t begin = 0, end = 0; begin < heads.size(); begin = end) {
    while (end < heads.size() && heads[end].thread_id == heads[begin].thread_id) ++end;
    std::vector<ChunkHead> own(heads.begin() + static_cast<ptrdiff_t>(begin),
                               heads.begin() + static_cast<ptrdiff_t>(end));
    // A chunk that was taken away: that part of the thread's life is not in the pool any more. What is older counts if it
    // was still open when the next chunk began: then the thread kept it. If rows are missing, the thread went on while we
    // were kept from reading: look at where it is now.
    for (int attempt = 0; attempt < 8; ++attempt) {
      copies.clear();
      WaitFilter filter = start;
      bool is_whole = true;
      uint64_t first_event_id = ~uint64_t{0};  // of the last chunk that was there
      const auto leave_out_older = [&] {
        is_whole = false;
        filter.from_end_id = std::max(filter.from_end_id, first_event_id);
      };
      for (const ChunkHead& head : own) {
        // One between may be missing: who takes the older one may have been kept from marking it.
        if (first_event_id != ~uint64_t{0} && head.first_event_id + kRecordsPerChunk != first_event_id) leave_out_older();
        if (CopyChunk(head, &filter, &copies)) {
          first_event_id = head.first_event_id;
          select(&copies, &filter);
        } else {
          leave_out_older();
        }
      }
      if (is_whole || copies.size() >= enough) break;
      own = ChunkHeads();
      const uint64_t thread_id = heads[begin].thread_id;
      own.erase(
          std::remove_if(own.begin(), own.end(), [&](const ChunkHead& head) { return head.thread_id != thread_id; }),
          own.end());
      std::sort(own.begin(), own.end(), by_thread_newest_first);
    }
    if (!IsLive(heads[begin])) continue;  // ended meanwhile
    std::sort(copies.begin(), copies.end(),
              [](const WaitCopy& a, const WaitCopy& b) { return a.event_id < b.event_id; });
    for (const WaitCopy& copy : copies) EmitWait(copy, use);
  }
}

void Snapshot::ForEachCurrentWait(const std::function<void(const WaitRow&)>& use) const {
  // All open ones; else the last that finished and was not part of another wait.
  const auto select = [](std::vector<WaitCopy>* copies, WaitFilter* filter) {
    bool any_open = false;
    uint64_t last_id = 0;
    for (const WaitCopy& c : *copies) {
      const bool is_nested = c.nesting_event_id != 0 && c.nesting_type() == kNestingWait;
      if (c.is_open())
        any_open = true;
      else if (!is_nested)
        last_id = std::max(last_id, c.event_id);
    }
    const auto is_dropped = [&](const WaitCopy& c) { return !c.is_open() && (any_open || c.event_id != last_id); };
    copies->erase(std::remove_if(copies->begin(), copies->end(), is_dropped), copies->end());
    // Older closed events cannot be the last one; older open ones count.
    filter->after_id = any_open ? ~uint64_t{0} : std::max(filter->after_id, last_id);
  };
  WaitFilter filter{.view = kViewCurrent};
  filter.wants_open = true;
  ForEachLiveThreadsWaits(filter, 1, select, use);
}

void Snapshot::ForEachWaitOfHistory(const std::function<void(const WaitRow&)>& use) const {
  if (!ok_) return;
  const uint64_t limit = static_cast<uint64_t>(std::max<int64_t>(option(OptionId::events_waits_history_size), 0));
  const auto select = [&](std::vector<WaitCopy>* copies, WaitFilter* filter) {
    if (copies->size() <= limit) return;
    // An event ends after those nested in it, which have the same END_EVENT_ID and a higher EVENT_ID.
    const auto finished_later = [](const WaitCopy& a, const WaitCopy& b) {
      return a.end_event_id() != b.end_event_id() ? a.end_event_id() > b.end_event_id() : a.event_id < b.event_id;
    };
    const auto last = copies->begin() + static_cast<ptrdiff_t>(limit - 1);
    std::nth_element(copies->begin(), last, copies->end(), finished_later);
    filter->from_end_id = last->end_event_id();
    copies->resize(limit);
  };
  if (limit != 0) ForEachLiveThreadsWaits({.view = kViewHistory, .bits = kRecordHistory}, limit, select, use);
}

uint64_t Snapshot::MostWaitsOfHistoryLong() const {
  if (!ok_) return 0;
  return std::min(static_cast<uint64_t>(std::max<int64_t>(option(OptionId::events_waits_history_long_size), 0)),
                  chunks_.used() * kRecordsPerChunk);
}

void Snapshot::ForEachWaitOfHistoryLong(const std::function<void(const WaitRow&)>& use) const {
  const uint64_t limit = MostWaitsOfHistoryLong();
  if (limit == 0) return;
  std::vector<WaitCopy> copies;
  // While we are kept from reading, chunks are taken away. Then once more, if rows are missing for it.
  for (int attempt = 0; attempt < 10; ++attempt) {
    const std::vector<ChunkHead> heads = ChunkHeads();
    copies.clear();
    copies.reserve(heads.size() * kRecordsPerChunk);
    WaitFilter filter{.view = kViewHistoryLong, .bits = kRecordHistoryLong, .newest_first = false};
    uint64_t lost = 0, latest_end = 0;
    for (size_t i = heads.size(); i-- > 0;) {
      const size_t first = copies.size();
      if (!CopyChunk(heads[i], &filter, &copies)) ++lost;
      for (size_t j = first; j < copies.size(); ++j) {
        // An event that was not timed finished some time after the one before it.
        copies[j].finish =
            copies[j].is_timed() ? copies[j].StartPicos(header()) + copies[j].WaitPicos(header()) : latest_end;
        latest_end = std::max(latest_end, copies[j].finish);
        copies[j].place += uint64_t{heads.size() - i} * kRecordsPerChunk;
      }
    }
    if (lost == 0 || copies.size() >= limit) break;
  }
  struct Order {
    uint64_t finish, place;
    const WaitCopy* copy;
    bool operator<(const Order& other) const {
      return finish != other.finish ? finish < other.finish : place < other.place;
    }
  };
  std::vector<Order> order;
  order.reserve(copies.size());
  for (const WaitCopy& copy : copies) order.push_back({copy.finish, copy.place, &copy});
  if (!std::is_sorted(order.begin(), order.end())) std::sort(order.begin(), order.end());
  for (size_t i = order.size() > limit ? order.size() - limit : 0; i < order.size(); ++i) EmitWait(*order[i].copy, use);
}

}  // namespace perfschema
