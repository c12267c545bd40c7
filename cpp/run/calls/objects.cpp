#include "run/calls/objects.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/placement.h"
#include "capi/guarded.h"
#include "record/engine/classes.h"
#include "record/family/locks.h"
#include "run/loader/real.h"
#include "run/python/python.h"
#include "shm/limits.h"

namespace perfschema::run {

constinit Objects g_objects = {};  // constinit: the start does not touch it

namespace {

constinit ShmClass no_class = {};

}  // namespace

constinit Tags g_tags = {uint64_t{1} << 63, &no_class, nullptr, 0, 0};

namespace {

PFS_SET_IN_EVERY_PROCESS uint64_t noted_check = 0;  // the top bits of a word that notes an init

// The component of what Python names.
constexpr const char* kPython = "python";
// Objects that sleep (objects.h). More than this many leave the map: memory stays bounded.
constexpr uint32_t kMostSleeping = 1 << 15;
std::atomic<uint32_t> sleeping{0};

// The flag words of objects without an instrument.
const uint32_t kUnborn = PFS_FLAG_ENABLED, kRefused = 0;

struct Traits {
  Family family;
  Register make;
  const char* prefix;
  const char* noun;
};

int RegisterSystemWait(const char* component, pfs_instrument_info* info, int count) {
  return perfschema::capi::RegisterFamily(Family::kSystemWait, component, info, count);
}

Traits TraitsOf(Kind kind) {
  switch (kind) {
    case Kind::kChild:
      return {Family::kSystemWait, RegisterSystemWait, "child-", "Wait for a child process,"};
    case Kind::kJoin:
      return {Family::kSystemWait, RegisterSystemWait, "join-", "Wait for the end of a thread,"};
    case Kind::kSleep:
      return {Family::kSystemWait, RegisterSystemWait, "sleep-", "Sleep,"};
    case Kind::kSignal:
      return {Family::kSystemWait, RegisterSystemWait, "signal-", "Wait for a signal,"};
    case Kind::kMessage:
      return {Family::kSystemWait, RegisterSystemWait, "message-", "Wait for a message, or a semaphore of System V,"};
    case Kind::kMapping:
      return {Family::kSystemWait, RegisterSystemWait, "msync-", "Write of a mapped file,"};
    case Kind::kResolve:
      return {Family::kSystemWait, RegisterSystemWait, "resolve-", "Look-up of a host name or address,"};
    case Kind::kTeam:
      return {Family::kSystemWait, RegisterSystemWait, "openmp-", "Wait for a team of OpenMP,"};
    case Kind::kAio:
      return {Family::kSystemWait, RegisterSystemWait, "aio-", "Wait for asynchronous I/O,"};
    case Kind::kSync:
      return {Family::kSystemWait, RegisterSystemWait, "sync-", "Write of all changed files,"};
    case Kind::kSpin:
      return {Family::kMutex, pfs_register_mutex, "spin-", "Spinlock"};
    case Kind::kRwlock:
      return {Family::kRwlock, pfs_register_rwlock, "", "Read-write lock"};
    case Kind::kCond:
      return {Family::kCond, pfs_register_cond, "", "Condition"};
    case Kind::kSemaphore:
      return {Family::kCond, pfs_register_cond, "sem-", "Semaphore"};
    case Kind::kPythonLock:
    case Kind::kPythonObject:
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

// Returns whether an object shares its instrument with all of its kind that the same place makes: its name is the place's.
bool IsNamedAfterMaker(const Site& maker, Kind kind, const void* address) {
  if (maker.name != nullptr || IsPlaceOfCall(kind)) return true;
  return NameOfGil(address, kind) == nullptr && ModuleOf(address) == nullptr;
}

// Returns the key of an object: names that Python knows come first.
pfs_key_t KeyOf(const Site& maker, Kind kind, const Traits& traits, const void* address) {
  if (maker.name != nullptr) {
    return KeyOfNamed(traits.make, kPython, maker.name,
                      kind == Kind::kPythonObject ? "Lock of CPython, by what it protects or the line that waits: waits alone are seen."
                                                  : "Of a Python program, by the line that makes a lock or that waits.");
  }
  if (const char* const name = NameOfGil(address, kind); name != nullptr) {
    return KeyOfNamed(traits.make, kPython, name, "Global interpreter lock of CPython.");
  }
  return KeyOfObject(traits.make, IsPlaceOfCall(kind) ? nullptr : address, maker, maker.prefix != nullptr ? maker.prefix : traits.prefix,
                     traits.noun);
}

// Returns the class of an object, 0 = none. A place remembers the class that is named after it. Others are looked for only if
// `may_register`, which is slow.
uint32_t ClassOf(const Site& maker, Kind kind, const void* address, bool may_register) {
  const bool is_named_after_maker = IsNamedAfterMaker(maker, kind, address);
  const std::atomic_ref known(maker.classes[static_cast<uint32_t>(kind)]);
  const uint32_t before = is_named_after_maker ? known.load(std::memory_order_relaxed) : 0;
  if (before != 0 || !may_register) return before;
  const Traits traits = TraitsOf(kind);
  const uint32_t found = ClassOfKey(traits.family, KeyOf(maker, kind, traits, address));
  if (is_named_after_maker) known.store(found, std::memory_order_relaxed);
  return found;
}

const uint32_t* FlagsOf(uint32_t class_index) {
  return class_index == 0 ? &kRefused : reinterpret_cast<const uint32_t*>(&g_runtime.classes[class_index].flags);
}

// Makes an instance if the class is enabled. Returns nullptr if it is not. If there is no space, that is counted as lost, and the class
// becomes 0: it is not tried again.
pfs_instance_t* RowFor(uint32_t* class_index, Kind kind, const void* address) {
  if (!pfs_flags_enabled_(FlagsOf(*class_index))) return nullptr;
  pfs_instance_t* const row = CreateInstance(TraitsOf(kind).family, g_runtime.classes[*class_index].key, address);
  if (row == nullptr) *class_index = 0;
  return row;
}

// Start-up, and other work under the cold lock, may call an allocator of the program's whose locks come here: they are plain then. To wait
// for the map here would be a deadlock.
bool IsBusy() { return static_cast<bool>(t_locals.in_cold_lock); }

// ---- All of these REQUIRE the map's lock ------------------------------------------------------------------------------------------------

Object* Add(const void* address, Kind kind, const Site* site) {
  Object* const object = g_objects.Add(reinterpret_cast<uintptr_t>(address), [=](Object& fresh) {
    fresh.flags.store(&kUnborn, std::memory_order_relaxed);
    fresh.row.store(nullptr, std::memory_order_relaxed);
    fresh.maker.store(site, std::memory_order_relaxed);
    fresh.least_waits.store(0, std::memory_order_relaxed);
    fresh.class_index.store(0, std::memory_order_relaxed);
    fresh.kind = kind;
  });
  if (object == nullptr) CountLoss(LimitsOf(TraitsOf(kind).family).instances_lost);
  return object;
}

void Remove(Object& object) {
  pfs_instance_t* const row = object.row.exchange(nullptr);
  object.flags.store(&kRefused, std::memory_order_relaxed);
  if (object.maker.load(std::memory_order_relaxed) == nullptr) sleeping.fetch_sub(1, std::memory_order_relaxed);
  g_objects.Remove(object);
  if (row != nullptr) DestroyInstance(row);
}

// ---- These do not -----------------------------------------------------------------------------------------------------------------------

// Two threads may use a new object at once: the second instance is not needed.
void GiveRow(Object& object, pfs_instance_t* row) {
  pfs_instance_t* none = nullptr;
  if (!object.row.compare_exchange_strong(none, row, std::memory_order_release)) DestroyInstance(row);  // pairs with IsInstrumented
}

// Gives an object its instrument, and its instance if that is enabled. Returns false, and does nothing, if it sleeps, or if its class is
// not known and it must not `may_register`: that REQUIRES the map's lock.
bool Complete(Object& object, const void* address, bool may_register) {
  const Site* const maker = object.maker.load(std::memory_order_acquire);
  if (maker == nullptr) return false;
  uint32_t class_index = object.class_index.load(std::memory_order_relaxed);
  if (object.flags.load(std::memory_order_relaxed) == &kUnborn) {
    class_index = ClassOf(*maker, object.kind, address, may_register);
    if (class_index == 0 && !may_register) return false;
  }
  pfs_instance_t* const row = object.row.load(std::memory_order_relaxed) == nullptr ? RowFor(&class_index, object.kind, address) : nullptr;
  object.class_index.store(class_index, std::memory_order_relaxed);
  object.flags.store(FlagsOf(class_index), std::memory_order_relaxed);
  if (row != nullptr) GiveRow(object, row);
  return true;
}

// Sets the maker of an object that sleeps. Several threads may do so: one of them has done it.
void Wake(Object& object, const Site* site) {
  const Site* none = nullptr;
  if (object.maker.compare_exchange_strong(none, site, std::memory_order_release)) sleeping.fetch_sub(1, std::memory_order_relaxed);
}

// Returns false if too many objects sleep.
bool PutToSleep(Object& object) {
  if (sleeping.fetch_add(1, std::memory_order_relaxed) >= kMostSleeping) {
    sleeping.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  object.class_index.store(0, std::memory_order_relaxed);
  object.least_waits.store(0, std::memory_order_relaxed);
  object.flags.store(&kUnborn, std::memory_order_relaxed);
  pfs_instance_t* const row = object.row.exchange(nullptr);
  object.maker.store(nullptr, std::memory_order_release);
  if (row != nullptr) DestroyInstance(row);
  return true;
}

uint32_t IndexOfRow(const pfs_instance_t* row) {
  return row == nullptr ? 0 : static_cast<uint32_t>(reinterpret_cast<const ShmInstance*>(row) - g_runtime.instances);
}

// Returns the word of a tag, and makes sure that probes can follow it.
uint64_t WordOf(uint32_t class_index, const pfs_instance_t* its_row, const void* lock) {
  const uint32_t row = IndexOfRow(its_row);
  // The first class to have a number gives class 0 its memory: reading a page without memory of a full file system is SIGBUS.
  if (class_index != 0) {
    g_tags.classes.store(g_runtime.classes, std::memory_order_relaxed);
    g_tags.instances.store(g_runtime.instances, std::memory_order_relaxed);
  }
  const auto raise = [](std::atomic<uint32_t>& end, uint32_t to) {
    for (uint32_t now = end.load(std::memory_order_relaxed); now < to;) {
      if (end.compare_exchange_weak(now, to, std::memory_order_relaxed)) break;
    }
  };
  raise(g_tags.end_of_classes, class_index + 1);
  raise(g_tags.end_of_instances, row);  // compared with row - 1
  return (uint64_t{class_index} << kRowBits | row) ^ g_tags.check ^ AddressCheck(lock);
}

// Returns whether a lock has a tag with an instance of its own, which is enabled.
bool HasEnabledTag(const Tag& tag, const void* lock) {
  return tag.HasClass() && pfs_flags_enabled_(tag.flags()) && tag.HasInstance() && Tag::IsOf(tag.instance(), lock);
}

// Gives a new lock at the address of an object its tag: `there` is the word that the lock came with. Several threads may take the lock for
// the first time: one of them replaces the word, and it alone ends the lock that was there before. Returns whether the lock is
// instrumented.
bool BeginTagged(Object& object, const void* lock, TagWord word, uint64_t there, const Site* site, uint32_t class_index) {
  pfs_instance_t* const row = RowFor(&class_index, object.kind, lock);
  if (!word.Replace(there, WordOf(class_index, row, lock))) {
    if (row != nullptr) DestroyInstance(row);
    return HasEnabledTag(Decoded(word.load(), lock), lock);
  }
  if (object.maker.exchange(site, std::memory_order_acq_rel) == nullptr) sleeping.fetch_sub(1, std::memory_order_relaxed);
  object.class_index.store(class_index, std::memory_order_relaxed);
  object.flags.store(FlagsOf(class_index), std::memory_order_relaxed);
  if (pfs_instance_t* const earlier = object.row.exchange(row); earlier != nullptr) DestroyInstance(earlier);
  return row != nullptr;
}

// Returns whether a tag is that of the object as it is now.
bool IsTagOf(const Tag& tag, const Object& object) {
  return tag.class_index() == object.class_index.load(std::memory_order_relaxed) &&
         tag.row() == IndexOfRow(object.row.load(std::memory_order_relaxed)) && object.flags.load(std::memory_order_relaxed) != &kUnborn;
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

const char* PrefixOf(Kind kind) { return TraitsOf(kind).prefix; }

Object* AddObject(const void* pointer, Kind kind, const Site* site) {
  if (IsBusy()) return nullptr;
  const SmallLock::Guard guard(g_objects.lock);
  Object* const object = g_objects.FindLocked(reinterpret_cast<uintptr_t>(pointer));
  if (object != nullptr && object->kind == kind) return object;
  if (object != nullptr) Remove(*object);
  return Add(pointer, kind, site);
}

void WakeAtUse(Object& object, const void* caller) { Wake(object, SiteOfUser(caller)); }

bool MakeInstance(Object& object) {
  if (IsBusy()) return false;
  const int error = errno;
  const auto* const address = reinterpret_cast<const void*>(object.address.load(std::memory_order_relaxed));
  if (!Complete(object, address, false)) {
    const SmallLock::Guard guard(g_objects.lock);
    (void)Complete(object, address, true);
  }
  errno = error;
  return object.row.load(std::memory_order_acquire) != nullptr;
}

void WakeObject(const void* address, Kind kind, const Site* site) {
  Object* const object = g_objects.Find(reinterpret_cast<uintptr_t>(address));
  if (object != nullptr && object->maker.load(std::memory_order_acquire) == nullptr) {
    object->kind = kind;
    return Wake(*object, site);
  }
  if (object != nullptr) ForgetObject(address);  // nobody has destroyed it
  (void)AddObject(address, kind, site);
}

void NoteInit(const void* address, Kind kind, const void* caller) {
  if (!RunIsOff()) WakeObject(address, kind, SiteOfUser(caller));
}

void EndObject(const void* address) {
  if (RunIsOff() || IsBusy()) return;
  Object* const object = g_objects.Find(reinterpret_cast<uintptr_t>(address));
  if (object == nullptr || object->maker.load(std::memory_order_acquire) == nullptr) return;
  const int error = errno;
  if (!PutToSleep(*object)) ForgetObject(address);
  errno = error;
}

void ForgetObject(const void* address) {
  if (RunIsOff() || IsBusy() || g_objects.Find(reinterpret_cast<uintptr_t>(address)) == nullptr) return;
  const int error = errno;
  {
    const SmallLock::Guard guard(g_objects.lock);
    if (Object* const object = g_objects.FindLocked(reinterpret_cast<uintptr_t>(address)); object != nullptr) Remove(*object);
  }
  errno = error;
}

namespace {

// Does what needs the map's lock: the address is new, or had an object of another kind, or the class is not known yet.
bool GiveFirstTag(const void* lock, Kind kind, TagWord word, uint64_t there, const Site* site) {
  const SmallLock::Guard guard(g_objects.lock);
  Object* object = g_objects.FindLocked(reinterpret_cast<uintptr_t>(lock));
  if (object != nullptr && object->kind != kind) {
    Remove(*object);
    object = nullptr;
  }
  if (object == nullptr) object = Add(lock, kind, site);
  return object != nullptr && BeginTagged(*object, lock, word, there, site, ClassOf(*site, kind, lock, true));
}

// Completes the tag of a lock whose instrument was disabled when it got it.
bool CompleteTag(Object& object, const void* lock, TagWord word, uint64_t there) {
  if (!Complete(object, lock, false)) return false;
  pfs_instance_t* const row = object.row.load(std::memory_order_acquire);
  (void)word.Replace(there, WordOf(object.class_index.load(std::memory_order_relaxed), row, lock));
  return row != nullptr && pfs_flags_enabled_(object.flags.load(std::memory_order_relaxed));
}

}  // namespace

bool GiveTag(const void* lock, Kind kind, TagWord word, const void* caller) {
  if (RunIsOff() || IsBusy()) return false;
  const int error = errno;
  const uint64_t there = word.load();
  Object* const object = KnownObject(lock, kind);
  bool is_instrumented;
  if (object != nullptr && IsTagOf(Decoded(there, lock), *object)) {
    is_instrumented = CompleteTag(*object, lock, word, there);
  } else {
    const bool is_noted = there >> kCodeBits == noted_check;
    const auto code = static_cast<uintptr_t>(there & ((uint64_t{1} << kCodeBits) - 1));
    const Site* site = SiteOf(is_noted ? reinterpret_cast<const void*>(code) : caller);
    if (IsInWrapper(*site)) site = SiteOfUser(caller);
    const uint32_t class_index = object != nullptr ? ClassOf(*site, kind, lock, false) : 0;
    is_instrumented =
        class_index != 0 ? BeginTagged(*object, lock, word, there, site, class_index) : GiveFirstTag(lock, kind, word, there, site);
  }
  errno = error;
  return is_instrumented;
}

pfs_instance_t* KnownRow(const void* lock, Kind kind, TagWord word) {
  if (RunIsOff()) return nullptr;
  const Object* const object = KnownObject(lock, kind);
  const Tag tag = Decoded(word.load(), lock);
  return object != nullptr && IsTagOf(tag, *object) ? object->row.load(std::memory_order_acquire) : nullptr;
}

void EndTagged(const void* lock, TagWord word) {
  if (RunIsOff() || word.load() == 0) return;
  word.store(0);
  EndObject(lock);
}

void NoteInitTagged(TagWord word, const void* caller) {
  const auto code = reinterpret_cast<uintptr_t>(caller);
  if (!RunIsOff() && code >> kCodeBits == 0) word.store(noted_check << kCodeBits | code);
}

bool IsKnownTagged(const void* lock, TagWord word) {
  const uint64_t there = word.load();
  return there >> kCodeBits == noted_check || Decoded(there, lock).HasClass();
}

}  // namespace perfschema::run
