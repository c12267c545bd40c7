#include "snapshot/blocked.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "perfschema/server.h"
#include "shm/records.h"
#include "snapshot/moment.h"
#include "snapshot/objects.h"
#include "snapshot/program_tables.h"
#include "snapshot/snapshot.h"
#include "snapshot/threads.h"

namespace perfschema {
namespace {

// Bound the work for damaged segments, in which everybody may hold everything.
constexpr size_t kMostRows = 1 << 17;
constexpr size_t kMostEdges = 1 << 22;

using EventKey = std::pair<uint64_t, uint64_t>;  // THREAD_ID, EVENT_ID
EventKey KeyOf(const OpenEvent& open) { return {open.event.thread_id, open.event.event_id}; }

struct Holder {
  std::optional<uint64_t> thread;
  uint64_t readers = 0;
};
using Holders = std::map<EventKey, std::vector<Holder>>;

enum class LockKind { kNone, kObject, kMetadata, kTable };

LockKind KindOf(std::string_view event_name) {
  constexpr std::string_view kObjects[] = {"wait/synch/mutex/", "wait/synch/rwlock/", "wait/synch/prlock/", "wait/synch/sxlock/"};
  for (const std::string_view prefix : kObjects) {
    if (event_name.starts_with(prefix)) return LockKind::kObject;
  }
  if (event_name.starts_with("wait/lock/metadata/")) return LockKind::kMetadata;
  return event_name.starts_with("wait/lock/table/") ? LockKind::kTable : LockKind::kNone;
}

std::vector<OpenEvent> WaitsOf(const std::vector<OpenEvent>& waits, LockKind kind) {
  std::vector<OpenEvent> found;
  for (const OpenEvent& wait : waits) {
    if (KindOf(wait.event.event_name.view()) == kind) found.push_back(wait);
  }
  return found;
}

// Mutexes and read-write locks.
void AddHoldersOfObjects(const Snapshot& snapshot, const std::vector<OpenEvent>& waits, Holders* holders) {
  if (waits.empty()) return;
  std::unordered_map<uint64_t, std::vector<EventKey>> of_object;
  for (const OpenEvent& wait : waits) of_object[*wait.object].push_back(KeyOf(wait));
  ForEachInstance(snapshot, [&](const InstanceRow& row) {
    const auto found = of_object.find(row.identity);
    if (found == of_object.end() || (!row.owner_thread_id && row.shared_count == 0)) return;
    for (const EventKey& wait : found->second) (*holders)[wait] = {{row.owner_thread_id, row.shared_count}};
  });
}

template <uint32_t N>
std::string TextOf(const std::optional<Text<N>>& text) {
  return text ? std::string(text->view()) : std::string();
}

void AddHoldersOfMetadata(const Snapshot& snapshot, const std::vector<OpenEvent>& waits, Holders* holders) {
  if (waits.empty()) return;
  using What = std::tuple<ObjectType, std::string, std::string, std::string>;
  std::unordered_map<uint64_t, What> wanted;
  std::map<What, std::vector<uint64_t>> owners;
  ForEachMetadataLock(snapshot, [&](const MetadataLockRow& row) {
    What what{row.type, TextOf(row.schema), TextOf(row.name), TextOf(row.column)};
    if (row.status == PFS_METADATA_GRANTED && row.owner_thread_id) owners[what].push_back(*row.owner_thread_id);
    wanted[row.identity] = std::move(what);
  });
  for (const OpenEvent& wait : waits) {
    const auto what = wanted.find(*wait.object);
    if (what == wanted.end()) continue;
    for (const uint64_t owner : owners[what->second]) {
      if (owner != wait.event.thread_id) (*holders)[KeyOf(wait)].push_back({owner});
    }
  }
}

void AddHoldersOfTables(const Snapshot& snapshot, const std::vector<OpenEvent>& waits, Holders* holders) {
  if (waits.empty()) return;
  std::map<std::pair<std::string, std::string>, std::vector<uint64_t>> owners;
  ForEachTableHandle(snapshot, [&](const TableHandleRow& row) {
    if (!row.owner_thread_id || (!row.internal_lock && !row.external_lock)) return;
    owners[{std::string(row.schema.view()), std::string(row.name.view())}].push_back(*row.owner_thread_id);
  });
  for (const OpenEvent& wait : waits) {
    for (const uint64_t owner : owners[{TextOf(wait.schema), TextOf(wait.object_name)}]) {
      if (owner != wait.event.thread_id) (*holders)[KeyOf(wait)].push_back({owner});
    }
  }
}

// Finds where and when holders took their locks: the last wait of the holder for the lock, if it is still recorded.
void AddAcquisitions(const Snapshot& snapshot, std::vector<BlockedRow>* rows) {
  struct Taken {
    uint64_t event_id = 0;
    std::optional<Text<64>> source;
    std::optional<uint64_t> end;
  };
  std::map<std::pair<uint64_t, uint64_t>, Taken> newest;  // by holder and lock
  for (const BlockedRow& row : *rows) {
    if (row.holder && row.wait.object.value_or(0) != 0) newest[{*row.holder, *row.wait.object}] = {};
  }
  if (newest.empty()) return;
  for (const uint32_t view : {kViewHistory, kViewHistoryLong}) {
    ForEachWait(snapshot, view, [&](const WaitRow& row) {
      const auto found = newest.find({row.event.thread_id, row.object});
      if (found == newest.end() || row.event.event_id <= found->second.event_id) return;
      found->second = {row.event.event_id, row.event.source, row.event.timer_end};
    });
  }
  for (BlockedRow& row : *rows) {
    if (!row.holder || row.wait.object.value_or(0) == 0) continue;
    const Taken& taken = newest[{*row.holder, *row.wait.object}];
    row.held_at = taken.source;
    if (taken.end) row.held = ReadMoment::Since(snapshot.header(), *taken.end);
  }
}

void AddDeadlocks(const Snapshot& snapshot, std::vector<BlockedRow>* rows) {
  std::vector<std::pair<uint64_t, uint64_t>> edges;
  for (const BlockedRow& row : *rows) {
    if (row.holder) edges.emplace_back(row.wait.event.thread_id, *row.holder);
  }
  const auto circles = Circles(edges);
  for (BlockedRow& row : *rows) {
    const auto found = circles.find(row.wait.event.thread_id);
    if (found == circles.end() || !row.holder) continue;
    const std::vector<uint64_t>& circle = found->second;
    if (std::find(circle.begin(), circle.end(), *row.holder) == circle.end()) continue;
    std::string text;
    for (const uint64_t thread : circle) text += (text.empty() ? "" : " -> ") + std::to_string(thread);
    row.deadlock = snapshot.Keep(text);
  }
}

}  // namespace

std::map<uint64_t, std::vector<uint64_t>> Circles(const std::vector<std::pair<uint64_t, uint64_t>>& edges) {
  std::map<uint64_t, std::vector<uint64_t>> follow, circles;
  for (const auto& [waiter, holder] : edges) follow[waiter].push_back(holder);
  size_t met = 0;
  for (const auto& [start, holders] : follow) {
    std::unordered_map<uint64_t, uint64_t> before;
    std::vector<uint64_t> reached = {start};
    for (size_t at = 0; at < reached.size() && before.count(start) == 0 && met < kMostEdges; ++at) {  // grows: breadth first
      const auto next = follow.find(reached[at]);
      if (next == follow.end()) continue;
      for (const uint64_t holder : next->second) {
        ++met;
        if (before.try_emplace(holder, reached[at]).second) reached.push_back(holder);
      }
    }
    if (before.count(start) == 0) continue;
    std::vector<uint64_t>& circle = circles[start];
    circle = {start};
    for (uint64_t thread = before[start]; thread != start; thread = before[thread]) circle.push_back(thread);
    std::reverse(circle.begin(), circle.end());
    std::rotate(circle.begin(), std::min_element(circle.begin(), circle.end()), circle.end());
    circle.push_back(circle.front());
  }
  return circles;
}

std::vector<BlockedRow> BlockedThreads(const Snapshot& snapshot) {
  std::vector<BlockedRow> rows;
  if (!snapshot.ok()) return rows;
  const std::vector<OpenEvent> waits = OpenWaits(snapshot);
  if (std::none_of(waits.begin(), waits.end(),
                   [](const OpenEvent& wait) { return KindOf(wait.event.event_name.view()) != LockKind::kNone; }))
    return rows;
  Holders holders;
  AddHoldersOfObjects(snapshot, WaitsOf(waits, LockKind::kObject), &holders);
  AddHoldersOfMetadata(snapshot, WaitsOf(waits, LockKind::kMetadata), &holders);
  AddHoldersOfTables(snapshot, WaitsOf(waits, LockKind::kTable), &holders);
  // A wait that still runs after its holder was read ran all the time. So a circle of holders is one, and no two moments mixed.
  std::map<EventKey, const OpenEvent*> still;
  std::unordered_map<uint64_t, const OpenEvent*> innermost;
  const std::vector<OpenEvent> open = OpenEvents(snapshot);
  for (const OpenEvent& event : open) {
    still[KeyOf(event)] = &event;
    innermost[event.event.thread_id] = &event;
  }
  const std::unordered_map<uint64_t, Text<128>> names = ThreadNames(snapshot);
  for (const OpenEvent& wait : waits) {
    const auto now = still.find(KeyOf(wait));
    if (KindOf(wait.event.event_name.view()) == LockKind::kNone || now == still.end()) continue;
    std::vector<Holder> held = holders[KeyOf(wait)];
    if (held.empty()) held.emplace_back();
    for (const Holder& holder : held) {
      if (rows.size() == kMostRows) break;
      BlockedRow row{};
      row.wait = *now->second;
      row.holder = holder.thread;
      row.readers = holder.readers;
      if (holder.thread) {
        if (const auto name = names.find(*holder.thread); name != names.end()) row.holder_name = name->second;
        if (const auto event = innermost.find(*holder.thread); event != innermost.end()) {
          row.holder_event = event->second->event.event_name;
          row.holder_event_source = event->second->event.source;
          row.holder_event_wait = event->second->event.timer_wait;
        }
      }
      rows.push_back(row);
    }
  }
  AddAcquisitions(snapshot, &rows);
  AddDeadlocks(snapshot, &rows);
  std::stable_sort(rows.begin(), rows.end(), [](const BlockedRow& a, const BlockedRow& b) {
    const auto& wait_a = a.wait.event.timer_wait;
    const auto& wait_b = b.wait.event.timer_wait;
    if (wait_a != wait_b) return wait_a.value_or(1) > wait_b.value_or(1);
    return a.wait.event.thread_id < b.wait.event.thread_id;
  });
  return rows;
}

}  // namespace perfschema
