// snapshot/event_reader.h: the three views of the records of a kind.
//
// Reads the heads of all chunks first, then the records. The views of one thread read its chunks from the newest record back: an older
// record cannot change into a newer one, so events that did not overlap never seem to. history_long reads the oldest chunk first: chunks
// are taken in that order, and a reader that is ahead of the takers loses none.
//
// An Event adds what is particular to a kind:
//   kKind, Row                                              its kind, and the type of a row of its tables
//   Extra; Load(snapshot, record, capacity, state, &extra)  the words behind the first line, and how to copy them; false = torn.
//   `capacity`: bytes
//                                                           from the record on that may be read
//   IsNested(head)                                          whether it is part of another event of its kind
//   Emit(snapshot, head, extra, use)                        makes the row
//
//   view                     rows
//   events_*_current         live threads: all open records; if none is open, the finished one with the highest EVENT_ID that is not
//                            nested in one of its kind
//   events_*_history         live threads, records with the history bit: the last N to finish, ordered by (END_EVENT_ID, -EVENT_ID)
//   events_*_history_long    records with the history_long bit, closed: the last M to finish (TIMER_END, else the order of chunks)
//
// A live thread is one whose slot still has the chunk's thread_id. Events whose END_EVENT_ID is younger than all events present when the
// reader first read the thread's records ended later. They are left out, because events before them may not have been read.
#pragma once

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/large_vector.h"
#include "snapshot/events.h"
#include "snapshot/moment.h"
#include "snapshot/slots.h"
#include "snapshot/sort_by_time.h"

namespace perfschema {

// The first line of a record, whole.
struct EventHead {
  uint64_t thread_id;
  uint64_t state, event_id, start_ticks, end_ticks, object, what, nesting_event_id, end_info;

  bool is_open() const { return (state & kRecordOpen) != 0; }
  bool is_timed() const { return (state & kRecordTimed) != 0; }
  uint64_t end_event_id() const { return event_id + EventsInside(state, end_info); }
  uint64_t class_index() const { return what & 0xffff; }
  uint32_t operation() const { return what >> 16 & 0xff; }  // of a statement: its level
  uint32_t nesting_type() const { return what >> 24 & 0xff; }
  // Returns the timer that the event began with, whatever setup_timers says now.
  uint32_t timer() const { return std::min<uint32_t>((state & kFlagTimerMask) >> kFlagTimerShift, kTimerCount - 1); }
  uint64_t StartPicos(const ShmHeader& header) const { return header.timers[timer()].Picos(start_ticks); }
  uint64_t WaitPicos(const ShmHeader& header) const {
    const auto ticks = static_cast<int64_t>(end_ticks - start_ticks);
    return ticks < 0 ? 0 : header.timers[timer()].Duration(static_cast<uint64_t>(ticks));
  }
};

// Says which records a view wants, so that two words are enough to reject most of them.
// Threads: external lock.
struct EventFilter {
  uint32_t view;
  uint64_t bits = 0;     // of the state that a record must have
  uint64_t without = 0;  // bits that it must not have
  bool newest_first = true;
  bool wants_open = false;   // besides closed ones
  uint64_t newest_id = 0;    // youngest event that was met, wanted or not, of any kind: the first one if the newest comes first
  uint64_t from_end_id = 0;  // closed events below it do not matter any more
  uint64_t after_id = 0;     // the same by EVENT_ID
};

struct ChunkHead {
  uint32_t index;
  uint32_t lap;
  uint32_t slot;
  uint64_t thread_id;
  uint64_t taken;
  uint64_t chunk_seq;  // orders the chunks of one thread
  uint64_t first_event_id;
};

// Returns the chunks of a kind that have events in them.
std::vector<ChunkHead> ScanChunks(const Snapshot& snapshot, Kind kind);
// Returns the youngest event of any kind but one, by THREAD_ID; approximate.
std::unordered_map<uint64_t, uint64_t> NewestEventIds(const Snapshot& snapshot, Kind but);
void FillRow(const Snapshot& snapshot, const EventHead& head, const ClassRow& instrument, EventRow* row);  // REQUIRES: *row is EventRow{}

// Threads: external lock.
template <typename Event>
class EventReader {
 public:
  using Row = typename Event::Row;
  using Use = std::function<void(const Row&)>;

  explicit EventReader(const Snapshot& snapshot) : snapshot_(snapshot), pool_(snapshot.pool(Event::kKind)) {}

  void ForEach(uint32_t view, const Use& use, const Expect& expect) const {
    if (!snapshot_.ok() || !pool_.ok()) return;
    if (view == kViewCurrent) return Current(use);
    view == kViewHistory ? History(use) : HistoryLong(use, expect);
  }

  // A chunk without new events costs one read of its head.
  void ForEachTraced(TraceCursor* cursor, const TraceUse& use) const {
    if (!snapshot_.ok() || !pool_.ok()) return;
    if (cursor->chunks.size() < pool_.used()) cursor->chunks.resize(pool_.used());
    for (uint64_t i = 1; i < cursor->chunks.size(); ++i) ReadTraced(i, cursor, use);
  }

 private:
  static constexpr size_t kMostOfThread = 8192;
  static constexpr size_t kAhead = 8;  // copies whose loads overlap while one is made a row
  struct Copy : EventHead {
    typename Event::Extra extra;
    uint32_t place;  // place in its chunk
  };
  using Copies = LargeVector<Copy>;

  // Returns true if the whole record was copied: it is wanted, and did not change meanwhile.
  bool CopyRecord(const ShmRecord& record, uint64_t capacity, uint32_t lap, EventFilter* filter, Copy* copy) const {
    // A record changes twice (open, closed), and then only with the chunk's lap.
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
      if ((state & filter->without) != 0) return false;
      if (copy->is_open()) {
        if (!filter->wants_open) return false;
      } else {
        const uint64_t end_event_id = copy->end_event_id();
        if (end_event_id < filter->from_end_id || copy->event_id <= filter->after_id) return false;
        // An event that finished after the newest event was read would leave a gap before it.
        if (filter->newest_first && end_event_id > filter->newest_id) return false;
      }
      copy->start_ticks = record.start_ticks.load(kAcquire);
      copy->end_ticks = record.end_ticks.load(kAcquire);
      copy->object = record.object.load(kAcquire);
      copy->what = record.what.load(kAcquire);
      copy->nesting_event_id = record.nesting_event_id.load(kAcquire);
      const bool whole = Event::Load(snapshot_, record, capacity, state, &copy->extra);
#if defined(PFS_BREAK_SEQLOCK)
      (void)lap;
      (void)whole;
      return true;
#endif
      if (whole && record.state.load(kRelaxed) == state) return true;
    }
    return false;
  }

  // Returns chunks with events in them, the newest first, without holes. A thread may take a chunk that a scan has passed and then one
  // that the scan has not reached. So there are two scans. The second keeps, for each thread, only chunks that are not younger than its
  // youngest chunk in the first: all of those existed when the second scan began.
  std::vector<ChunkHead> ChunkHeads() const {
    std::vector<ChunkHead> first = ScanChunks(snapshot_, Event::kKind);
    std::vector<ChunkHead> heads;
    // Tries again if the reader was descheduled for so long that much is new.
    for (int attempt = 0; attempt < 10 && (attempt == 0 || snapshot_.MayTryAgain()); ++attempt) {
      std::unordered_map<uint64_t, uint64_t> youngest;
      for (const ChunkHead& head : first) youngest[head.thread_id] = std::max(youngest[head.thread_id], head.chunk_seq);
      std::vector<ChunkHead> second = ScanChunks(snapshot_, Event::kKind);
      heads.clear();
      std::unordered_set<uint64_t> found;
      for (const ChunkHead& head : second) {
        const auto limit = youngest.find(head.thread_id);
        if (limit == youngest.end() || head.chunk_seq > limit->second) continue;
        heads.push_back(head);
        found.insert(head.thread_id);
      }
      if (found.size() == youngest.size() && (second.size() - heads.size()) * 8 <= second.size()) break;
      first = std::move(second);
    }
    // `taken` is the same for all if there is no usable cycle counter.
    std::sort(heads.begin(), heads.end(), [](const ChunkHead& a, const ChunkHead& b) {
      return std::tie(a.taken, a.thread_id, a.chunk_seq) > std::tie(b.taken, b.thread_id, b.chunk_seq);
    });
    return heads;
  }

  void ReadTraced(uint64_t index, TraceCursor* cursor, const TraceUse& use) const {
    const ShmChunk* const chunk = pool_.chunk(index);
    if (chunk == nullptr) return;
    TraceCursor::Chunk& seen = cursor->chunks[index];
    const uint32_t lap = chunk->lap.load(kAcquire);  // pairs with the taker's store of the new lap
    if (lap != seen.lap) {
      // Events that have begun here without an end are lost. The next chunk of the thread tells how many were never seen.
      if (const uint64_t open = seen.begun & ~seen.settled; open != 0)
        cursor->ends_lost[seen.thread_id] += static_cast<uint64_t>(std::popcount(open));
      seen = {};
      if (lap == 0 || (lap & 1) != 0) return;
      TraceCursor::Chunk fresh;
      fresh.lap = lap;
      fresh.slot = chunk->thread.load(kAcquire);
      fresh.thread_id = chunk->thread_id.load(kAcquire);
      fresh.chunk_seq = chunk->sequence.load(kAcquire);
      fresh.traced_before = chunk->traced.load(kAcquire);
      if (chunk->lap.load(kRelaxed) != lap || fresh.thread_id == 0) return;  // at the next call
      seen = fresh;
    }
    const uint32_t ready = chunk->Ready(pool_.per_chunk());
    if (lap == 0 || ready == 0 || seen.settled == ~uint64_t{0} >> (64 - ready)) return;
    const PoolView::Records records = pool_.records(index);
    if (records.first == nullptr) return;
    // Copies first: while the chunk changes hands, a record still seems to be the last owner's.
    std::vector<std::pair<uint32_t, Copy>>& copies = copies_;
    copies.clear();
    uint64_t begun = 0, settled = 0;
    EventFilter filter{.view = kViewCurrent, .bits = kRecordTraced, .newest_first = false};
    filter.wants_open = true;
    for (uint32_t n = 0; n < records.count; ++n) {
      const uint64_t bit = uint64_t{1} << n;
      if ((seen.settled & bit) != 0) continue;
      const ShmRecord& record = pool_.Next(records.first, n);
      const uint64_t state = record.state.load(kAcquire);  // pairs with the owner's release store
      if (state >> 32 != lap) continue;                    // not begun
      if ((state & kRecordTraced) == 0) {
        if ((state & kRecordClosed) != 0 || (state & kRecordOpen) == 0) settled |= bit;
        continue;
      }
      if ((state & (kRecordOpen | kRecordClosed)) == 0) {  // discarded by the program
        begun |= bit;
        settled |= bit;
        continue;
      }
      if ((state & kRecordOpen) != 0 && (seen.begun & bit) != 0) continue;
      Copy copy{};
      copy.thread_id = seen.thread_id;
      if (CopyRecord(record, pool_.Capacity(records, n), lap, &filter, &copy)) copies.emplace_back(n, copy);
    }
    if (chunk->lap.load(kRelaxed) != lap) return;  // lost events are counted when the chunk is met again
    for (auto& [n, copy] : copies) {
      const uint64_t bit = uint64_t{1} << n;
      if ((seen.begun & bit) == 0) {
        EventHead start = copy;
        start.state = (start.state & ~kRecordClosed) | kRecordOpen;
        if (!Give(start, copy.extra, seen, false, cursor, use)) continue;
        begun |= bit;
      }
      if (copy.is_open()) continue;
      (void)Give(copy, copy.extra, seen, true, cursor, use);
      seen.ended |= bit;
      settled |= bit;
    }
    begun &= ~seen.begun;
    seen.begun |= begun;
    seen.settled |= settled;
    if (seen.begun == 0) return;
    TraceCursor::Thread& thread = cursor->threads[seen.thread_id];
    thread.begun_seen += static_cast<uint64_t>(std::popcount(begun));
    if (seen.chunk_seq >= thread.chunk_seq) {
      thread.chunk_seq = seen.chunk_seq;
      thread.begun_before = seen.traced_before;
      thread.begun_in_chunk = static_cast<uint64_t>(std::popcount(seen.begun));
    }
  }

  // Returns false if this is not possible now.
  bool Give(const EventHead& head, const typename Event::Extra& extra, const TraceCursor::Chunk& chunk, bool is_end, TraceCursor* cursor,
            const TraceUse& use) const {
    bool is_given = false;
    Event::Emit(snapshot_, head, extra, [&](const Row& row) {
      is_given = true;
      ++cursor->given;
      use({head.thread_id, chunk.slot, head.event_id, is_end ? head.end_event_id() : 0, is_end, &row});
    });
    if (!is_given && !cursor->is_last_chance) cursor->is_of_old_snapshot = true;
    return is_given || cursor->is_last_chance;
  }

  bool IsLive(const ChunkHead& head) const {
    const ShmThread* thread = snapshot_.array<ArrayId::kThreads>().at(head.slot);
    return thread != nullptr && thread->thread_id.load(kAcquire) == head.thread_id;
  }

  // Appends the records of a chunk that the filter wants. Returns false, with nothing appended, if the chunk changed hands.
  bool CopyChunk(const ChunkHead& head, EventFilter* filter, Copies* copies) const {
    const ShmChunk* const chunk = pool_.chunk(head.index);
    const PoolView::Records records = pool_.records(head.index);
    if (chunk == nullptr || records.first == nullptr) return false;
    const size_t size_before = copies->size();
    copies->resize(size_before + records.count);  // space for the copies; the rest is given back
    Copy* copy = copies->data() + size_before;
    for (uint32_t n = 0; n < records.count; ++n) {
      const uint32_t i = filter->newest_first ? records.count - 1 - n : n;
      if (!CopyRecord(pool_.Next(records.first, i), pool_.Capacity(records, i), head.lap, filter, copy)) continue;
      copy->thread_id = head.thread_id;
      copy->place = i;
      ++copy;
    }
    copies->resize(static_cast<size_t>(copy - copies->data()));
    // Reads the mask after the records, so that a TRUNCATE that ended before this reading began is seen.
    const uint64_t hidden = chunk->hidden[filter->view].Of(head.lap);
#if !defined(PFS_BREAK_SEQLOCK)
    if (chunk->lap.load(kRelaxed) != head.lap) {
      copies->resize(size_before);
      return false;
    }
#endif
    if (hidden != 0) {
      const auto is_hidden = [&](const Copy& c) { return (hidden >> c.place & 1) != 0; };
      copies->erase(std::remove_if(copies->begin() + static_cast<ptrdiff_t>(size_before), copies->end(), is_hidden), copies->end());
    }
    return true;
  }

  // Reads the records of each live thread from the newest chunk back. select(&copies, &filter) runs after each chunk. It removes records
  // that the view does not show, as far as is known, and sharpens the filter. The rest is emitted by EVENT_ID. A view has `enough` rows
  // per thread.
  template <typename Select>
  void OfLiveThreads(const EventFilter& start, uint64_t enough, Select select, const Use& use) const {
    const auto by_thread_newest_first = [](const ChunkHead& a, const ChunkHead& b) {
      return a.thread_id != b.thread_id ? a.thread_id < b.thread_id : a.chunk_seq > b.chunk_seq;
    };
    // Reads other kinds before the records of this one: END_EVENT_ID of an event may be any kind's.
    const auto newest_ids = NewestEventIds(snapshot_, Event::kKind);
    std::vector<ChunkHead> heads = ChunkHeads();
    heads.erase(std::remove_if(heads.begin(), heads.end(), [&](const ChunkHead& head) { return !IsLive(head); }), heads.end());
    std::sort(heads.begin(), heads.end(), by_thread_newest_first);
    Copies copies;
    for (size_t begin = 0, end = 0; begin < heads.size(); begin = end) {
      const uint64_t thread_id = heads[begin].thread_id;
      while (end < heads.size() && heads[end].thread_id == thread_id) ++end;
      std::vector<ChunkHead> own(heads.begin() + static_cast<ptrdiff_t>(begin), heads.begin() + static_cast<ptrdiff_t>(end));
      uint64_t newest_of_others = 0;
      if (const auto found = newest_ids.find(thread_id); found != newest_ids.end()) newest_of_others = found->second;
      // A missing chunk was taken away: the pool no longer holds that part of the thread's events. An older event counts if it was still
      // open when the next chunk began: then the thread kept it. If rows are missing, the thread went on while this reader was
      // descheduled: read its present chunks.
      for (int attempt = 0; attempt < 8 && (attempt == 0 || snapshot_.MayTryAgain()); ++attempt) {
        copies.clear();
        EventFilter filter = start;
        filter.newest_id = newest_of_others;
        bool is_whole = true;
        uint64_t chunk_seq = 0, first_event_id = 0;  // of the previous chunk that was present
        const auto leave_out_older = [&] {
          is_whole = false;
          filter.from_end_id = std::max(filter.from_end_id, chunk_seq == 0 ? ~uint64_t{0} : first_event_id);
        };
        for (const ChunkHead& head : own) {
          // A chunk between them may be missing: the thread that takes the older one may have been descheduled before it marked it.
          if (chunk_seq != 0 && head.chunk_seq + 1 != chunk_seq) leave_out_older();
          if (CopyChunk(head, &filter, &copies)) {
            chunk_seq = head.chunk_seq;
            first_event_id = head.first_event_id;
            select(&copies, &filter);
            if (copies.size() > kMostOfThread) break;  // no thread runs this many events: a damaged file
          } else {
            leave_out_older();
          }
        }
        if (is_whole || copies.size() >= enough) break;
        newest_of_others = std::max(newest_of_others, NewestEventIds(snapshot_, Event::kKind)[thread_id]);
        own = ChunkHeads();
        own.erase(std::remove_if(own.begin(), own.end(), [&](const ChunkHead& head) { return head.thread_id != thread_id; }), own.end());
        std::sort(own.begin(), own.end(), by_thread_newest_first);
      }
      if (!IsLive(heads[begin])) continue;  // ended meanwhile
      std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) { return a.event_id < b.event_id; });
      for (const Copy& copy : copies) Event::Emit(snapshot_, copy, copy.extra, use);
    }
  }

  // Shows all open events; if there are none, the last that finished and was not part of another.
  void Current(const Use& use) const {
    const auto select = [](Copies* copies, EventFilter* filter) {
      bool any_open = false;
      uint64_t last_id = 0;
      for (const Copy& c : *copies) {
        if (c.is_open())
          any_open = true;
        else if (!Event::IsNested(c))
          last_id = std::max(last_id, c.event_id);
      }
      const auto is_dropped = [&](const Copy& c) { return !c.is_open() && (any_open || c.event_id != last_id); };
      copies->erase(std::remove_if(copies->begin(), copies->end(), is_dropped), copies->end());
      // Older closed events cannot be the last one; older open ones count.
      filter->after_id = any_open ? ~uint64_t{0} : std::max(filter->after_id, last_id);
    };
    EventFilter filter{.view = kViewCurrent, .without = kRecordTraceOnly};
    filter.wants_open = true;
    OfLiveThreads(filter, 1, select, use);
  }

  void History(const Use& use) const {
    const auto limit =
        static_cast<uint64_t>(std::max<int64_t>(snapshot_.option(kPools[static_cast<uint32_t>(Event::kKind)].history_size), 0));
    const auto select = [&](Copies* copies, EventFilter* filter) {
      if (copies->size() <= limit) return;
      // An event ends after those nested in it, which have the same END_EVENT_ID and a higher EVENT_ID.
      const auto finished_later = [](const Copy& a, const Copy& b) {
        return a.end_event_id() != b.end_event_id() ? a.end_event_id() > b.end_event_id() : a.event_id < b.event_id;
      };
      const auto last = copies->begin() + static_cast<ptrdiff_t>(limit - 1);
      std::nth_element(copies->begin(), last, copies->end(), finished_later);
      filter->from_end_id = last->end_event_id();
      copies->resize(limit);
    };
    if (limit != 0) OfLiveThreads({.view = kViewHistory, .bits = kRecordHistory}, limit, select, use);
  }

  void HistoryLong(const Use& use, const Expect& expect) const {
    const auto limit =
        static_cast<uint64_t>(std::max<int64_t>(snapshot_.option(kPools[static_cast<uint32_t>(Event::kKind)].history_long_size), 0));
    if (limit == 0) return;
    Copies copies;
    // While this reader is descheduled, chunks are taken away. It tries again if rows are missing for that.
    for (int attempt = 0; attempt < 10 && (attempt == 0 || snapshot_.MayTryAgain()); ++attempt) {
      const std::vector<ChunkHead> heads = ChunkHeads();
      copies.clear();
      copies.reserve(heads.size() * pool_.per_chunk());
      EventFilter filter{.view = kViewHistoryLong, .bits = kRecordHistoryLong, .newest_first = false};
      uint64_t lost = 0;
      for (size_t i = heads.size(); i-- > 0;) {
        if (i != 0) __builtin_prefetch(pool_.records(heads[i - 1].index).first);  // of a page that is probably not in the cache
        if (!CopyChunk(heads[i], &filter, &copies)) ++lost;
      }
      if (lost == 0 || copies.size() >= limit) break;
    }
    if (copies.size() <= limit && ReadMoment::AnyOrder()) {
      if (expect) expect(copies.size());
      for (const Copy& copy : copies) Event::Emit(snapshot_, copy, copy.extra, use);
      return;
    }
    LargeVector<TimedPlace> order, cached;
    order.reserve(copies.size());
    uint64_t latest = 0;
    for (const Copy& copy : copies) {
      // An event that was not timed finished some time after the one before it.
      const uint64_t finish = copy.is_timed() ? copy.StartPicos(snapshot_.header()) + copy.WaitPicos(snapshot_.header()) : latest;
      latest = std::max(latest, finish);
      order.push_back({finish, order.size()});
    }
    SortByTime(&order, &cached);
    const size_t rows = std::min<size_t>(order.size(), limit);
    if (expect) expect(rows);
    for (size_t i = order.size() - rows; i < order.size(); ++i) {
      if (i + kAhead < order.size()) __builtin_prefetch(&copies[order[i + kAhead].place]);
      const Copy& copy = copies[order[i].place];
      Event::Emit(snapshot_, copy, copy.extra, use);
    }
  }

  const Snapshot& snapshot_;
  const PoolView& pool_;
  mutable std::vector<std::pair<uint32_t, Copy>> copies_;
};

}  // namespace perfschema
