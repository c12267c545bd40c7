// run/objects.h: from the address of a lock, a condition ... to its instance.
//
// A program's pthread_mutex_t has no space for a pointer, so a table has it. The look-up takes no lock: it loads one entry in nearly all
// cases. An object is known from its init or its first use on; it gets its instance at its first use, so a program that makes locks
// and never takes one needs no segment. An object that was never destroyed leaves its entry to the next object of another family at its
// address.
#pragma once

#include <atomic>
#include <cstdint>

#include "perfschema/pfs.h"
#include "run/sites.h"

namespace perfschema::run {

enum class Kind : uint8_t { kMutex = 1, kSpin, kRwlock, kCond, kSemaphore, kBarrier, kPythonLock };

// Is an entry of the table. Threads: any thread reads; `address` is stored last and cleared first; the rest changes under a SmallLock.
struct Object {
  std::atomic<uintptr_t> address;      // 0 = never used, 1 = destroyed
  std::atomic<const uint32_t*> flags;  // of its instrument; of a word that says "enabled" while it has no instance yet
  std::atomic<pfs_instance_t*> row;    // nullptr = none
  const Site* maker;                   // init, or the first use
  Kind kind;
};

// For the templates of record/family/lock_events.h: an object is what a probe is called with.
inline uint64_t AddressOf(const Object* object) { return object->address.load(std::memory_order_relaxed); }

inline constexpr uint32_t kTableBits = 17;
extern Object g_objects[] __attribute__((visibility("hidden")));

inline uint32_t PlaceOfObject(uintptr_t address) {
  return static_cast<uint32_t>(((address >> 3) * 0x9e3779b97f4a7c15u) >> (64 - kTableBits));
}

// Returns the entry of an object that is not at its first place, or makes one. Returns nullptr if the table is full there. Slow.
[[gnu::noinline]] Object* FindOrAddObject(const void* address, Kind kind, const Site* site, bool must_add);

// Returns the entry at the object's first place if it is this object's, else nullptr.
inline Object* AtFirstPlace(const void* address, Kind kind) {
  Object* const object = &g_objects[PlaceOfObject(reinterpret_cast<uintptr_t>(address))];
  const bool is_it = object->address.load(std::memory_order_acquire) == reinterpret_cast<uintptr_t>(address) && object->kind == kind;
  return __builtin_expect(is_it, 1) ? object : nullptr;
}

// Returns the entry of an object, which may have no instance yet. nullptr = make the plain call.
inline Object* ObjectAt(const void* address, Kind kind, const void* caller) {
  Object* const object = AtFirstPlace(address, kind);
  return object != nullptr ? object : FindOrAddObject(address, kind, SiteOf(caller), true);
}

// Returns the entry of an object that is known, or nullptr.
inline Object* KnownObject(const void* address, Kind kind) {
  Object* const object = AtFirstPlace(address, kind);
  return object != nullptr ? object : FindOrAddObject(address, kind, nullptr, false);
}

// Returns whether events of the object are instrumented. The object's instance is made here if it has none. `object` may be nullptr.
[[gnu::noinline]] bool MakeInstance(Object& object);
inline bool IsInstrumented(Object* object) {
  if (object == nullptr || !pfs_flags_enabled(object->flags.load(std::memory_order_relaxed))) return false;
  return __builtin_expect(object->row.load(std::memory_order_acquire) != nullptr, 1) || MakeInstance(*object);
}

// Forgets an object: it is destroyed, or made again at the same address. Does nothing while pfs is off. Slow.
void ForgetObject(const void* address);
// Notes an init. Makes no instance. Does nothing while pfs is off.
void NoteInit(const void* address, Kind kind, const void* caller);

}  // namespace perfschema::run
