#include "run/objects.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/placement.h"
#include "record/engine/classes.h"
#include "record/family/locks.h"
#include "run/python.h"
#include "run/real.h"
#include "shm/limits.h"

namespace perfschema::run {

constinit Objects g_objects = {};  // constinit: the start does not touch it

namespace {

constinit ShmClass no_class = {};

}  // namespace

constinit Tags g_tags = {uint64_t{1} << 63, &no_class, nullptr, 0, 0};

namespace {

PFS_SET_IN_EVERY_PROCESS uint64_t noted_check = 0;  // the top bits of a word that notes an init

// Is the component of what Python names.
constexpr const char* kPython = "python";
// Locks of Python that sleep (objects.h). More than so many leave the map as others do: memory stays bounded.
constexpr uint32_t kMostSleeping = 1 << 15;
std::atomic<uint32_t> sleeping{0};

// The flag words of objects without an instrument.
const uint32_t kUnborn = PFS_FLAG_ENABLED, kRefused = 0;

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
    case Kind::kOnce:
      return {Family::kCond, pfs_register_cond, "once-", "Initialization by another thread that is"};
    case Kind::kFutex:
      return {Family::kCond, pfs_register_cond, "futex-", "Futexes that syscall() waits for,"};
    default:
      return {Family::kMutex, pfs_register_mutex, "", "Mutex"};
  }
}

// Returns the key of an object: names that Python knows come first.
pfs_key_t KeyOf(const Object& object, const Facts& facts, const void* address) {
  if (object.maker->name != nullptr) {
    return KeyOfNamed(facts.make, kPython, object.maker->name, "Lock of a Python program, by the line that makes or waits for it.");
  }
  if (const char* const name = NameOfGil(address, object.kind); name != nullptr) {
    return KeyOfNamed(facts.make, kPython, name, "Global interpreter lock of CPython.");
  }
  // The place of the call stands for its futexes: it is no object in the module's data.
  return KeyOfObject(facts.make, object.kind != Kind::kFutex ? address : nullptr, *object.maker, facts.prefix, facts.noun);
}

// Returns whether an object shares its instrument with all of its kind that the same place makes: its name is the place's.
bool IsNamedAfterMaker(const Object& object, const void* address) {
  if (object.maker->name != nullptr || object.kind == Kind::kFutex) return true;
  return NameOfGil(address, object.kind) == nullptr && ModuleOf(address) == nullptr;
}
std::atomic_ref<uint32_t> ClassNamedAfter(const Site& maker, Kind kind) {
  return std::atomic_ref(maker.classes[static_cast<uint32_t>(kind)]);
}

// Start-up, and other work under the cold lock, may call an allocator of the program's whose locks come here: they are plain then. To wait
// for the map here would be a deadlock.
bool IsBusy() { return static_cast<bool>(t_locals.in_cold_lock); }

// ---- All of these REQUIRE the map's lock ------------------------------------------------------------------------------------------------

Object* Add(const void* address, Kind kind, const Site* site) {
  Object* const object = g_objects.Add(reinterpret_cast<uintptr_t>(address), [=](Object& fresh) {
    fresh.flags.store(&kUnborn, std::memory_order_relaxed);
    fresh.row.store(nullptr, std::memory_order_relaxed);
    fresh.maker = site;
    fresh.least_waits.store(0, std::memory_order_relaxed);
    fresh.class_index = 0;
    fresh.kind = kind;
  });
  if (object == nullptr) CountLoss(LimitsOf(FactsOf(kind).family).instances_lost);
  return object;
}

void Remove(Object& object) {
  pfs_instance_t* const row = object.row.exchange(nullptr);
  object.flags.store(&kRefused, std::memory_order_relaxed);
  if (object.maker == nullptr) sleeping.fetch_sub(1, std::memory_order_relaxed);
  g_objects.Remove(object);
  if (row != nullptr) DestroyInstance(row);
}

// Two threads may use a new lock of Python at once: the second instance is not needed.
void GiveRow(Object& object, pfs_instance_t* row) {
  pfs_instance_t* none = nullptr;
  if (!object.row.compare_exchange_strong(none, row, std::memory_order_release) && row != nullptr)
    DestroyInstance(row);  // pairs with IsInstrumented
}

// Gives an object its instrument, and its instance if that is enabled.
void Complete(Object& object, const void* address) {
  const Facts facts = FactsOf(object.kind);
  if (object.flags.load(std::memory_order_relaxed) == &kUnborn) {
    const bool is_named_after_maker = IsNamedAfterMaker(object, address);
    object.class_index = is_named_after_maker ? ClassNamedAfter(*object.maker, object.kind).load(std::memory_order_relaxed) : 0;
    if (object.class_index == 0) object.class_index = ClassOfKey(facts.family, KeyOf(object, facts, address));
    const uint32_t* flags = &kRefused;
    if (object.class_index != 0) flags = reinterpret_cast<const uint32_t*>(&g_runtime.classes[object.class_index].flags);
    object.flags.store(flags, std::memory_order_relaxed);
    if (is_named_after_maker) ClassNamedAfter(*object.maker, object.kind).store(object.class_index, std::memory_order_relaxed);
  }
  const uint32_t* const flags = object.flags.load(std::memory_order_relaxed);
  if (!pfs_flags_enabled(flags) || object.row.load(std::memory_order_relaxed) != nullptr) return;
  pfs_instance_t* const row = CreateInstance(facts.family, g_runtime.classes[object.class_index].key, address);
  if (row == nullptr) {  // it has been counted as lost
    object.class_index = 0;
    object.flags.store(&kRefused, std::memory_order_relaxed);
  }
  GiveRow(object, row);
}

// Does the same for a lock of Python whose class is known, without the map's lock. Returns false, and does nothing, for others.
bool CompletePython(Object& object, const void* address) {
  if (!g_is_python || object.maker == nullptr || object.maker->name == nullptr) return false;
  const uint32_t class_index = ClassNamedAfter(*object.maker, object.kind).load(std::memory_order_relaxed);
  if (class_index == 0) return false;
  const auto* const flags = reinterpret_cast<const uint32_t*>(&g_runtime.classes[class_index].flags);
  object.flags.store(flags, std::memory_order_relaxed);
  if (!pfs_flags_enabled(flags)) return true;
  pfs_instance_t* const row = CreateInstance(FactsOf(object.kind).family, g_runtime.classes[class_index].key, address);
  if (row == nullptr) object.flags.store(&kRefused, std::memory_order_relaxed);
  GiveRow(object, row);
  return true;
}

uint32_t IndexOfRow(const pfs_instance_t* row) {
  return row == nullptr ? 0 : static_cast<uint32_t>(reinterpret_cast<const ShmInstance*>(row) - g_runtime.instances);
}

// Returns the word of an object's tag, and makes sure that probes can follow it.
uint64_t WordOf(const Object& object, const void* lock) {
  const uint32_t row = IndexOfRow(object.row.load(std::memory_order_relaxed));
  if (g_runtime.classes != nullptr) {
    g_tags.classes.store(g_runtime.classes, std::memory_order_relaxed);
    g_tags.instances.store(g_runtime.instances, std::memory_order_relaxed);
  }
  const auto raise = [](std::atomic<uint32_t>& end, uint32_t to) {
    if (end.load(std::memory_order_relaxed) < to) end.store(to, std::memory_order_relaxed);
  };
  raise(g_tags.end_of_classes, object.class_index + 1);
  raise(g_tags.end_of_instances, row);  // compared with row - 1
  return (uint64_t{object.class_index} << kRowBits | row) ^ g_tags.check ^ AddressCheck(lock);
}

// Returns whether a tag is that of the object as it is now.
bool IsTagOf(const Tag& tag, const Object& object) {
  return tag.class_index() == object.class_index && tag.row() == IndexOfRow(object.row.load(std::memory_order_relaxed)) &&
         object.flags.load(std::memory_order_relaxed) != &kUnborn;
}

}  // namespace

PFS_IN_EVERY_PROCESS void StartTags() {
  uint64_t secret = 0;
  const auto* const bytes = reinterpret_cast<const void*>(getauxval(AT_RANDOM));
  if (bytes != nullptr) std::memcpy(&secret, bytes, sizeof secret);
  g_tags.check = (secret | uint64_t{1} << 63) >> kCheckShift << kCheckShift;
  noted_check = (secret & 0x7fff) | 1u << 15;
}

void StopTags() {
  g_tags.end_of_classes.store(0, std::memory_order_relaxed);
  g_tags.end_of_instances.store(0, std::memory_order_relaxed);
}

Object* AddObject(const void* pointer, Kind kind, const Site* site) {
  if (IsBusy()) return nullptr;
  const SmallLock::Guard guard(g_objects.lock);
  Object* const object = g_objects.FindLocked(reinterpret_cast<uintptr_t>(pointer));
  if (object != nullptr && object->kind == kind) return object;
  if (object != nullptr) Remove(*object);
  return Add(pointer, kind, site);
}

bool MakeInstance(Object& object) {
  if (IsBusy()) return false;
  const int error = errno;
  const auto* const address = reinterpret_cast<const void*>(object.address.load(std::memory_order_relaxed));
  if (!CompletePython(object, address)) {
    const SmallLock::Guard guard(g_objects.lock);
    if (object.maker != nullptr) Complete(object, address);
  }
  errno = error;
  return object.row.load(std::memory_order_acquire) != nullptr;
}

void WakeObject(const void* address, Kind kind, const Site* site) {
  Object* const object = g_objects.Find(reinterpret_cast<uintptr_t>(address));
  if (object == nullptr || object->maker != nullptr) {  // a new address, or an object that nobody has destroyed
    ForgetObject(address);
    (void)AddObject(address, kind, site);
    return;
  }
  sleeping.fetch_sub(1, std::memory_order_relaxed);
  object->kind = kind;
  object->class_index = 0;
  object->maker = site;
  object->flags.store(&kUnborn, std::memory_order_release);
}

bool PutToSleep(const void* address) {
  Object* const object = g_is_off || IsBusy() ? nullptr : g_objects.Find(reinterpret_cast<uintptr_t>(address));
  if (object == nullptr || object->maker == nullptr || object->maker->name == nullptr) return false;
  if (sleeping.fetch_add(1, std::memory_order_relaxed) >= kMostSleeping) {
    sleeping.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  const int error = errno;
  object->flags.store(&kRefused, std::memory_order_relaxed);
  object->maker = nullptr;
  if (pfs_instance_t* const row = object->row.exchange(nullptr); row != nullptr) DestroyInstance(row);
  errno = error;
  return true;
}

void ForgetObject(const void* address) {
  if (g_is_off || IsBusy() || g_objects.Find(reinterpret_cast<uintptr_t>(address)) == nullptr) return;
  const int error = errno;
  {
    const SmallLock::Guard guard(g_objects.lock);
    if (Object* const object = g_objects.FindLocked(reinterpret_cast<uintptr_t>(address)); object != nullptr) Remove(*object);
  }
  errno = error;
}

void NoteInit(const void* address, Kind kind, const void* caller) {
  if (g_is_off) return;
  ForgetObject(address);
  (void)AddObject(address, kind, SiteOf(caller));
}

bool GiveTag(const void* lock, Kind kind, TagWord word, const void* caller) {
  if (g_is_off || IsBusy()) return false;
  const int error = errno;
  bool is_instrumented = false;
  {
    const SmallLock::Guard guard(g_objects.lock);
    const uint64_t there = word.load();
    const Tag tag = Decoded(there, lock);
    Object* object = g_objects.FindLocked(reinterpret_cast<uintptr_t>(lock));
    if (object != nullptr && !(object->kind == kind && IsTagOf(tag, *object))) {
      Remove(*object);
      object = nullptr;
    }
    if (object == nullptr) {
      const bool is_noted = there >> kCodeBits == noted_check;
      const auto code = static_cast<uintptr_t>(there & ((uint64_t{1} << kCodeBits) - 1));
      object = Add(lock, kind, SiteOf(is_noted ? reinterpret_cast<const void*>(code) : caller));
    }
    if (object != nullptr) {
      Complete(*object, lock);
      word.store(WordOf(*object, lock));
      is_instrumented =
          object->row.load(std::memory_order_relaxed) != nullptr && pfs_flags_enabled(object->flags.load(std::memory_order_relaxed));
    }
  }
  errno = error;
  return is_instrumented;
}

pfs_instance_t* KnownRow(const void* lock, Kind kind, TagWord word) {
  if (g_is_off) return nullptr;
  const Object* const object = KnownObject(lock, kind);
  const Tag tag = Decoded(word.load(), lock);
  return object != nullptr && IsTagOf(tag, *object) ? object->row.load(std::memory_order_acquire) : nullptr;
}

void ForgetTagged(const void* lock, TagWord word) {
  if (g_is_off || word.load() == 0) return;
  word.store(0);
  ForgetObject(lock);
}

void NoteInitTagged(TagWord word, const void* caller) {
  const auto code = reinterpret_cast<uintptr_t>(caller);
  if (!g_is_off && code >> kCodeBits == 0) word.store(noted_check << kCodeBits | code);
}

bool IsKnownTagged(const void* lock, TagWord word) {
  const uint64_t there = word.load();
  return there >> kCodeBits == noted_check || Decoded(there, lock).HasClass();
}

}  // namespace perfschema::run
