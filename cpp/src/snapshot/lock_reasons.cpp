#include "snapshot/lock_reasons.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "shm/records.h"
#include "snapshot/moment.h"
#include "snapshot/snapshot.h"

namespace perfschema {
namespace {

constexpr uint64_t kShortest = 1'000'000;  // picoseconds: a wait for a free lock is shorter
constexpr size_t kMostVisits = 1 << 24;    // bound the work for damaged segments

struct TimedWait {
  uint64_t start, end, thread, id;
  Text<128> name;
  std::optional<Text<64>> source;
  Text<32> operation;
  std::optional<Text<512>> object_name;
  uint64_t object;
  bool is_open, is_lock;
};

bool IsLock(std::string_view name) { return name.starts_with("wait/synch/") || name.starts_with("wait/lock/"); }

// Returns the timed waits that are no part of other waits, by their start.
std::vector<TimedWait> ReadWaits(const Snapshot& snapshot, uint64_t now) {
  std::map<std::pair<uint64_t, uint64_t>, TimedWait> found;
  for (const uint32_t view : {kViewHistoryLong, kViewHistory, kViewCurrent}) {
    ForEachWait(snapshot, view, [&](const WaitRow& row) {
      const EventRow& event = row.event;
      if (!event.timer_start || event.nesting_type == NestingType::kWait || event.event_name.view() == "idle") return;
      const bool is_open = !event.end_event_id;
      const uint64_t end = is_open ? std::max(now, *event.timer_start) : event.timer_end.value_or(*event.timer_start);
      found[{event.thread_id, event.event_id}] = {*event.timer_start,
                                                  end,
                                                  event.thread_id,
                                                  event.event_id,
                                                  event.event_name,
                                                  event.source,
                                                  row.operation,
                                                  row.object_name,
                                                  row.object,
                                                  is_open,
                                                  IsLock(event.event_name.view())};
    });
  }
  std::vector<TimedWait> waits;
  waits.reserve(found.size());
  for (const auto& [key, wait] : found) waits.push_back(wait);
  std::sort(waits.begin(), waits.end(), [](const TimedWait& a, const TimedWait& b) {
    return std::tie(a.start, a.end, a.thread, a.id) < std::tie(b.start, b.end, b.thread, b.id);
  });
  return waits;
}

struct Span {
  uint64_t begin, end;
};

// Returns when at least one of the threads waited. `tries`: by start.
std::vector<Span> Union(const std::vector<const TimedWait*>& tries) {
  std::vector<Span> spans;
  for (const TimedWait* wait : tries) {
    if (wait->end - wait->start < kShortest) continue;
    if (!spans.empty() && wait->start <= spans.back().end) {
      spans.back().end = std::max(spans.back().end, wait->end);
    } else {
      spans.push_back({wait->start, wait->end});
    }
  }
  return spans;
}

// Returns how much of [begin, end) the spans cover.
uint64_t Overlap(const std::vector<Span>& spans, uint64_t begin, uint64_t end, size_t* steps) {
  uint64_t total = 0;
  auto at = std::lower_bound(spans.begin(), spans.end(), begin, [](const Span& span, uint64_t time) { return span.end < time; });
  for (; at != spans.end() && at->begin < end; ++at, ++*steps) {
    const uint64_t from = std::max(at->begin, begin), to = std::min(at->end, end);
    if (to > from) total += to - from;
  }
  return total;
}

class Sums {
 public:
  void Add(const TimedWait& taken, const TimedWait* event, uint64_t time) {
    const Key key{taken.name.view(),
                  Shown(taken.source),
                  event == nullptr ? std::string_view() : event->name.view(),
                  event == nullptr ? std::string_view() : event->operation.view(),
                  event == nullptr ? std::string_view() : Shown(event->object_name),
                  event == nullptr ? std::string_view() : Shown(event->source)};
    const auto [found, is_new] = rows_.try_emplace(key);
    LockReasonRow& row = found->second;
    if (is_new) {
      row = {taken.name, taken.source, {}, {}, {}, {}, 0, 0};
      if (event != nullptr) {
        row.event_name = event->name;
        row.operation = event->operation;
        row.object_name = event->object_name;
        row.source = event->source;
      }
    }
    ++row.count;
    row.wait += time;
  }

  std::vector<LockReasonRow> Rows() const {
    std::vector<LockReasonRow> rows;
    rows.reserve(rows_.size());
    for (const auto& [key, row] : rows_) rows.push_back(row);
    std::stable_sort(rows.begin(), rows.end(), [](const LockReasonRow& a, const LockReasonRow& b) { return a.wait > b.wait; });
    return rows;
  }

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view, std::string_view, std::string_view>;
  template <typename T>
  static std::string_view Shown(const std::optional<T>& text) {
    return text ? text->view() : std::string_view();
  }
  std::map<Key, LockReasonRow> rows_;
};

}  // namespace

std::vector<LockReasonRow> LockReasons(const Snapshot& snapshot) {
  if (!snapshot.ok()) return {};
  const uint64_t now = ReadMoment::Now(snapshot.header());
  const std::vector<TimedWait> waits = ReadWaits(snapshot, now);
  std::unordered_map<uint64_t, std::vector<const TimedWait*>> of_thread;
  std::map<std::pair<uint64_t, std::string_view>, std::vector<const TimedWait*>> of_lock;
  for (const TimedWait& wait : waits) {
    of_thread[wait.thread].push_back(&wait);
    if (wait.is_lock) of_lock[{wait.object, wait.name.view()}].push_back(&wait);
  }
  Sums sums;
  size_t steps = 0;
  for (const auto& [lock, tries] : of_lock) {
    const std::vector<Span> spans = Union(tries);
    if (spans.empty()) continue;
    std::vector<const TimedWait*> got;
    for (const TimedWait* wait : tries) {
      if (!wait->is_open) got.push_back(wait);
    }
    std::sort(got.begin(), got.end(), [](const TimedWait* a, const TimedWait* b) { return a->end < b->end; });
    for (size_t at = 0; at < got.size() && steps < kMostVisits; ++at) {
      const TimedWait& taken = *got[at];
      const uint64_t until = at + 1 < got.size() ? got[at + 1]->end : now;
      uint64_t waited = Overlap(spans, taken.end, until, &steps);
      if (waited == 0) continue;
      const std::vector<const TimedWait*>& own = of_thread[taken.thread];
      auto event =
          std::lower_bound(own.begin(), own.end(), taken.end, [](const TimedWait* wait, uint64_t time) { return wait->start < time; });
      for (; event != own.end() && (*event)->start < until; ++event, ++steps) {
        if ((*event)->object == taken.object && (*event)->name.view() == taken.name.view()) continue;  // another turn for the same lock
        const uint64_t time = Overlap(spans, (*event)->start, std::min((*event)->end, until), &steps);
        if (time == 0) continue;
        waited -= std::min(waited, time);
        sums.Add(taken, *event, time);
      }
      if (waited > 0) sums.Add(taken, nullptr, waited);
    }
  }
  return sums.Rows();
}

}  // namespace perfschema
