// run/calls/objects.h: from the address of a lock, a condition ... to its instance.
//
// A map has all objects that are known (address_map.h). Mutexes and read-write locks have a tag, too, which saves the look-up (tags.h).
// An object gets its instrument at its first use, and its instance at its first use while that is enabled: a program that makes locks and
// never takes one needs no segment. An object that was never destroyed ends when another one is made at its address. An
// object that cannot be recorded is counted as lost once.
#pragma once

#include <atomic>
#include <cstdint>

#include "perfschema/pfs.h"
#include "run/calls/tags.h"
#include "run/loader/address_map.h"
#include "run/loader/sites.h"
#include "run/loader/wrappers.h"

namespace perfschema::run {

// From kFutex to the last but one: what is waited for is no object of the program. The place of the call stands for it.
enum class Kind : uint8_t {
  kMutex = 1,
  kSpin,
  kRwlock,
  kCond,
  kSemaphore,
  kBarrier,
  kOnce,
  kFutex,
  kChild,
  kJoin,
  kSleep,
  kSignal,
  kMessage,
  kMapping,
  kResolve,
  kTeam,
  kAio,
  kSync,
  kPythonLock,
  kPythonObject  // what a lock of CPython protects that is no semaphore
};
static_assert(static_cast<uint32_t>(Kind::kPythonObject) < Site::kKinds);
// Returns what stands before the place in a name of the kind, such as "sleep-".
const char* PrefixOf(Kind kind);
constexpr bool IsPlaceOfCall(Kind kind) { return kind >= Kind::kFutex && kind < Kind::kPythonLock; }

// Threads: any. A node gets its address and loses it under the map's lock. First uses, init and destroy change the rest without it.
struct Object : Mapped<Object> {
  std::atomic<const uint32_t*> flags;  // of its instrument; of a word that says "enabled" while it has none yet
  std::atomic<pfs_instance_t*> row;    // nullptr = none
  std::atomic<const Site*> maker;      // init, or the first use; nullptr: the object sleeps
  std::atomic<uint64_t> least_waits;   // of a condition: glibc has counted this many waits, or more; of a Python lock: semaphores.cpp
  std::atomic<uint32_t> class_index;   // 0 = none
  Kind kind;
};

using Objects = AddressMap<Object, 16>;
extern Objects g_objects __attribute__((visibility("hidden")));

// Returns the object at an address, or makes one of this kind. nullptr = it cannot be recorded. Slow.
[[gnu::noinline]] Object* AddObject(const void* address, Kind kind, const Site* site);
// Wakes an object that sleeps: this is the first use of another one at its address, which had no init. Several threads may do so.
[[gnu::noinline]] void WakeAtUse(Object& object, const void* caller);

// Returns the instance of a mutex, or nullptr.
pfs_instance_t* RowOfMutex(const pthread_mutex_t* m);

// Returns an object that is known, or nullptr.
PFS_ALWAYS_INLINE Object* KnownObject(const void* address, Kind kind) {
  Object* const object = g_objects.Find(reinterpret_cast<uintptr_t>(address));
  return __builtin_expect(object != nullptr, 1) && __builtin_expect(object->kind == kind, 1) ? object : nullptr;
}

// Returns whether there is an object that does not sleep.
inline bool IsAwake(const Object* object) { return object != nullptr && object->maker.load(std::memory_order_relaxed) != nullptr; }

// Returns an object, which may have no instance yet. nullptr = make the plain call.
inline Object* ObjectAt(const void* address, Kind kind, const void* caller) {
  Object* const object = KnownObject(address, kind);
  if (__builtin_expect(object == nullptr, 0)) return AddObject(address, kind, SiteOfUser(caller));
  if (__builtin_expect(object->maker.load(std::memory_order_relaxed) == nullptr, 0)) WakeAtUse(*object, caller);
  return object;
}

// Returns the object that stands for a site. A lock and a condition that have the name of one line are two objects.
inline Object* ObjectOfSite(const Site* site, Kind kind) {
  const void* const place = reinterpret_cast<const char*>(site) + (kind == Kind::kPythonObject ? 1 : 0);
  Object* const known = KnownObject(place, kind);
  return known != nullptr ? known : AddObject(place, kind, site);
}

// Returns whether events of the object are instrumented. The object's instance is made here if it has none. `object` may be nullptr.
[[gnu::noinline]] bool MakeInstance(Object& object);
inline bool IsInstrumented(Object* object) {
  if (object == nullptr || !pfs_flags_enabled_(object->flags.load(std::memory_order_relaxed))) return false;
  return __builtin_expect(object->row.load(std::memory_order_acquire) != nullptr, 1) || MakeInstance(*object);
}

// Objects come and go by the thousand, often at an address that has had one. That takes no lock, for a lock costs system calls: an object
// that is destroyed stays in the map and sleeps, without an instance and an instrument, until one is made at its address. Only the owner of
// that memory calls these, as init and destroy.

// Notes an init at a site. Makes no instance. REQUIRES: pfs is not off.
void WakeObject(const void* address, Kind kind, const Site* site);
// Does the same for the caller of an init function. Does nothing while pfs is off, as the next one.
void NoteInit(const void* address, Kind kind, const void* caller);
// Lets an object sleep. If too many do so, it leaves the map.
void EndObject(const void* address);

// Forgets an object: another one is made at the same address. Does nothing while pfs is off. Slow.
void ForgetObject(const void* address);

// ---- Locks with a tag ----------------------------------------------------------------------------------------------------------------

// Completes the tag of a lock that a probe could not follow: a new one gets its instance and its tag. Returns false for the plain call.
// Slow.
[[gnu::noinline]] bool GiveTag(const void* lock, Kind kind, TagWord word, const void* caller);
// Returns the instance of a known lock of which the tag alone did not tell it, or nullptr. Slow.
[[gnu::noinline]] pfs_instance_t* KnownRow(const void* lock, Kind kind, TagWord word);
// As EndObject() and NoteInit(); the latter without a look at the map.
void EndTagged(const void* lock, TagWord word);
void NoteInitTagged(TagWord word, const void* caller);
// Returns whether a lock is known or noted.
bool IsKnownTagged(const void* lock, TagWord word);

// Takes the process's secret. Called once, at the start.
void StartTags();
// From here on no tag leads to an instance: pfs is off.
void StopTags();

}  // namespace perfschema::run
