// run/calls/python_locks.h: locks of Python, in both forms that CPython gives them.
//
// Up to 3.12 a lock is a semaphore of the C library (semaphores.cpp). In 3.14, and in the 3.13.5 of Debian 13, it is a byte in an object,
// and a thread takes a free one without a call. There the methods of the types lead here first, as other functions do
// (run/python/python_calls.cpp), and so do the constructor and the destructor. The object at the byte's address is then like one at a
// semaphore: it has the line that makes the lock, an event for each acquisition, and a holder. The wait for a lock is that for the
// semaphore that the interpreter makes for it. The wait for the GIL that follows does not belong to it.
#pragma once

#include "record/context/threads.h"
#include "run/calls/objects.h"
#include "run/python/python.h"

namespace perfschema::run {

// A Python lock that one thread takes and another one releases excludes nobody: threads wait there for work, as for a condition. Before the
// first release of that kind nothing tells: a thread that waits for a lock of its own may hang.
inline bool IsForWork(const Object& lock) { return lock.least_waits.load(std::memory_order_relaxed) != 0; }
inline void NoteRelease(Object& lock) {
  const uint64_t owner = pfs_owner_(lock.row.load(std::memory_order_acquire));
  const ThreadState* const thread = t_locals.state;
  const bool is_of_other = owner != 0 && !pfs_owner_is_rare_(owner) && thread != nullptr && owner != thread->thread_id;
  if (is_of_other) lock.least_waits.store(1, std::memory_order_relaxed);
}

// The object of the waits for work at a lock: it lies at the second byte of what the lock is.
inline const void* PlaceOfWork(const void* lock) { return static_cast<const char*>(lock) + 1; }
inline Object* ObjectOfWork(const Object& lock, const void* place_of_lock) {
  const void* const place = PlaceOfWork(place_of_lock);
  Object* const known = KnownObject(place, Kind::kSemaphore);
  if (IsAwake(known)) return known;
  WakeObject(place, Kind::kSemaphore, lock.maker.load(std::memory_order_acquire));
  return KnownObject(place, Kind::kSemaphore);
}

}  // namespace perfschema::run
