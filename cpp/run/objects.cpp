#include "run/objects.h"

#include "record/family/locks.h"
#include "run/python.h"
#include "run/real.h"
#include "run/small_lock.h"

namespace perfschema::run {

constinit Object g_objects[size_t{1} << kTableBits] = {};  // constinit: 4 MiB that the start does not touch

namespace {

constexpr uint32_t kMask = (1u << kTableBits) - 1;
constexpr uint32_t kMostProbes = 64;
constexpr uintptr_t kDestroyed = 1;
// Is the component of what Python names.
constexpr const char* kPython = "python";
// The flag words of objects without an instance.
const uint32_t kUnborn = PFS_FLAG_ENABLED, kRefused = 0;

SmallLock lock;

struct Facts {
  Family family;
  Register make;
  const char* prefix;
  const char* noun;
};

Facts FactsOf(Kind kind) {
  switch (kind) {
    case Kind::kSpin:
      return {Family::kMutex, pfs_register_mutex, "spin-", "Spinlock"};
    case Kind::kRwlock:
      return {Family::kRwlock, pfs_register_rwlock, "", "Read-write lock"};
    case Kind::kCond:
      return {Family::kCond, pfs_register_cond, "", "Condition"};
    case Kind::kSemaphore:
      return {Family::kCond, pfs_register_cond, "sem-", "Semaphore"};
    case Kind::kPythonLock:
      return {Family::kMutex, pfs_register_mutex, "", "Python lock"};
    case Kind::kBarrier:
      return {Family::kCond, pfs_register_cond, "barrier-", "Barrier"};
    default:
      return {Family::kMutex, pfs_register_mutex, "", "Mutex"};
  }
}

// Returns the key of an entry: names that Python knows come first.
pfs_key_t KeyOf(const Object& object, const Facts& facts, const void* address) {
  if (object.maker->name != nullptr) {
    return KeyOfNamed(facts.make, kPython, object.maker->name, "Lock of a Python program, by the line that makes or waits for it.");
  }
  if (const char* const name = NameOfGil(address, object.kind); name != nullptr) {
    return KeyOfNamed(facts.make, kPython, name, "Global interpreter lock of CPython.");
  }
  return KeyOfObject(facts.make, address, *object.maker, facts.prefix, facts.noun);
}

// Empties an entry. REQUIRES: the lock.
void Clear(Object& object, uintptr_t address) {
  object.address.store(address, std::memory_order_release);
  pfs_instance_t* const row = object.row.exchange(nullptr);
  object.flags.store(&kRefused, std::memory_order_relaxed);
  if (row != nullptr) DestroyInstance(row);
}

// Fills an entry. REQUIRES: the lock.
void Fill(Object& object, uintptr_t address, Kind kind, const Site* site) {
  object.maker = site;
  object.kind = kind;
  object.flags.store(&kUnborn, std::memory_order_relaxed);
  object.address.store(address, std::memory_order_release);  // pairs with ObjectAt
}

}  // namespace

Object* FindOrAddObject(const void* pointer, Kind kind, const Site* site, bool must_add) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto find = [=](Object** free) -> Object* {
    uint32_t at = PlaceOfObject(address);
    for (uint32_t i = 0; i < kMostProbes; ++i, at = (at + 1) & kMask) {
      Object& object = g_objects[at];
      const uintptr_t there = object.address.load(std::memory_order_acquire);
      if (there == address) return &object;
      if (there <= kDestroyed && *free == nullptr) *free = &object;
      if (there == 0) break;
    }
    return nullptr;
  };
  Object* free = nullptr;
  if (Object* known = find(&free); known != nullptr && known->kind == kind) return known;
  if (!must_add) return nullptr;
  const SmallLock::Guard guard(lock);
  free = nullptr;
  Object* object = find(&free);
  if (object != nullptr && object->kind == kind) return object;
  if (object != nullptr) Clear(*object, kDestroyed);
  if (object == nullptr) object = free;
  if (object != nullptr) Fill(*object, address, kind, site);
  return object;
}

bool MakeInstance(Object& object) {
  // Start-up calls an allocator whose locks come here: they are plain this time, and get their instance later.
  if (t_locals.in_cold_lock) return false;
  const Facts facts = FactsOf(object.kind);
  const int error = errno;
  bool is_made = false;
  {
    const SmallLock::Guard guard(lock);
    if (object.row.load(std::memory_order_relaxed) == nullptr) {
      const auto* const address = reinterpret_cast<const void*>(object.address.load(std::memory_order_relaxed));
      const pfs_key_t key = KeyOf(object, facts, address);
      pfs_instance_t* const row = key != 0 ? CreateInstance(facts.family, key, address) : nullptr;
      object.flags.store(row != nullptr ? FlagsOfInstance(row) : &kRefused, std::memory_order_relaxed);
      object.row.store(row, std::memory_order_release);  // pairs with IsInstrumented
    }
    is_made = object.row.load(std::memory_order_relaxed) != nullptr;
  }
  errno = error;
  return is_made && pfs_flags_enabled(object.flags.load(std::memory_order_relaxed));
}

void ForgetObject(const void* address) {
  if (g_is_off) return;
  uint32_t at = PlaceOfObject(reinterpret_cast<uintptr_t>(address));
  for (uint32_t i = 0; i < kMostProbes; ++i, at = (at + 1) & kMask) {
    const uintptr_t there = g_objects[at].address.load(std::memory_order_acquire);
    if (there == 0) return;
    if (there != reinterpret_cast<uintptr_t>(address)) continue;
    const int error = errno;
    const SmallLock::Guard guard(lock);
    if (g_objects[at].address.load(std::memory_order_relaxed) == there) Clear(g_objects[at], kDestroyed);
    errno = error;
    return;
  }
}

void NoteInit(const void* address, Kind kind, const void* caller) {
  if (g_is_off) return;
  ForgetObject(address);
  (void)FindOrAddObject(address, kind, SiteOf(caller), true);
}

}  // namespace perfschema::run
