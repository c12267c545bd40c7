// snapshot/traced.h: the trace's progress through the records of a kind. Every traced event is met twice: when it is first seen, and when
// it has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace perfschema {

// A start or an end of an event.
struct TracedRow {
  uint64_t thread_id;
  uint32_t slot;  // of the thread
  uint64_t event_id;
  uint64_t end_event_id;
  bool is_end;
  const void* row;  // of the kind's tables; at a start it is a running event
};
using TraceUse = std::function<void(const TracedRow&)>;

// Threads: external lock.
struct TraceCursor {
  // Remembers the chunk as it was last seen. One bit per record.
  struct Chunk {
    uint32_t lap = 0;
    uint32_t slot = 0;
    uint64_t thread_id = 0;
    uint64_t chunk_seq = 0;
    uint64_t traced_before = 0;     // ShmChunk::traced
    uint64_t begun = 0, ended = 0;  // traced events that were given to `use`
    uint64_t settled = 0;           // no further row will come of the record
  };
  // Holds the progress of a thread. begun = those in chunks before the youngest one, and those seen in it.
  struct Thread {
    uint64_t chunk_seq = 0, begun_before = 0, begun_in_chunk = 0;
    uint64_t begun_seen = 0;
    uint64_t begun() const { return begun_before + begun_in_chunk; }
  };
  std::vector<Chunk> chunks;
  std::unordered_map<uint64_t, Thread> threads;      // by THREAD_ID
  std::unordered_map<uint64_t, uint64_t> ends_lost;  // by THREAD_ID: events that began, and whose record was lost before the end was read
  bool is_of_old_snapshot = false;                   // an instrument was younger than the Snapshot: call again with a new one
  bool is_last_chance = false;                       // gives up such a record instead
  uint64_t given = 0;                                // rows
};

}  // namespace perfschema
