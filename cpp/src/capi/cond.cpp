// capi/cond.cpp: condition variables, and the program's own waits for conditions.
//
// Events and owners end in destructors: waiting is a cancellation point, and a thread that is canceled in it unwinds through here, the
// mutex taken again, before the program's cleanup handlers run. Hence nothing here is noexcept.
//
// A condition may be destroyed as soon as all its waiters were woken, before they have returned: after the wait *c is not touched.
#include "base/clock_waits.h"
#include "capi/own_wait.h"
#include "capi/owner_on_leave.h"

using perfschema::AsInstance;
using perfschema::Family;
using perfschema::Operation;
using perfschema::ShmInstance;
using perfschema::Wait;
using perfschema::capi::OwnerOnLeave;

namespace {

// The event, from construction to destruction.
class CondEvent {
 public:
  CondEvent(const pfs_cond_t* c, Operation operation, const char* file, uint32_t line) : object_(AsInstance(c->instance)) {
    if (!pfs_flags_enabled_(c->flags)) return;
    const auto& entry =
        *reinterpret_cast<const perfschema::ShmClass*>(reinterpret_cast<const char*>(c->flags) - offsetof(perfschema::ShmClass, flags));
    const uint32_t flags = entry.flags.load(perfschema::kRelaxed);
    if ((flags & perfschema::kFlagEnabled) == 0) return;
    version_ = perfschema::VersionOf(*object_);
    is_begun_ = perfschema::BeginWait(wait_, flags, entry.index, operation, reinterpret_cast<uintptr_t>(c), file, line);
  }
  ~CondEvent() {
    if (is_begun_) EndCondWait(wait_, *object_, version_);
  }
  CondEvent(const CondEvent&) = delete;
  CondEvent& operator=(const CondEvent&) = delete;

 private:
  Wait wait_;
  const ShmInstance* object_;
  uint32_t version_ = 0;
  bool is_begun_ = false;
};

// Returns whether a condition is shared between processes, as for a mutex.
bool IsShared(const pthread_condattr_t* attributes) {
  int shared = PTHREAD_PROCESS_PRIVATE;
  return pthread_condattr_getpshared(attributes, &shared) == 0 && shared == PTHREAD_PROCESS_SHARED;
}

// A function of its own: the common way then saves no registers for it.
[[gnu::noinline, gnu::cold]] int InitWith(pfs_key_t key, pfs_cond_t* c, const pthread_condattr_t* attributes) {
  const int rc = pthread_cond_init(&c->cond, attributes);
  perfschema::CreateObject(Family::kCond, rc == 0 && !IsShared(attributes) ? key : 0, c);
  return rc;
}

template <typename Call>
PFS_ALWAYS_INLINE int WaitFor(const pfs_cond_t* c, pfs_instance_t* mutex, Operation operation, const char* file, uint32_t line, Call call) {
  OwnerOnLeave owner(mutex, file, line);
  const CondEvent event(c, operation, file, line);
  const int rc = call();
  owner.Returned(rc);
  return rc;
}

}  // namespace

extern "C" {

int pfs_cond_init(pfs_key_t key, pfs_cond_t* c, const pthread_condattr_t* attributes) {
  if (__builtin_expect(attributes != nullptr, 0)) return InitWith(key, c, attributes);
  if (const int rc = pthread_cond_init(&c->cond, nullptr); __builtin_expect(rc != 0, 0)) return perfschema::NoObject(c, rc);
  perfschema::CreateObject(Family::kCond, key, c);
  return 0;
}

int pfs_cond_destroy(pfs_cond_t* c) {
  const int rc = pthread_cond_destroy(&c->cond);
  if (__builtin_expect(rc != 0, 0)) return rc;
  perfschema::DestroyObject(c);
  return 0;
}

int pfs_cond_wait_(pfs_cond_t* c, pthread_mutex_t* m, pfs_instance_t* mutex, PFS_SITE_) {
  return WaitFor(c, mutex, Operation::kCondWait, file, line, [=] { return pthread_cond_wait(&c->cond, m); });
}

int pfs_cond_timedwait_(pfs_cond_t* c, pthread_mutex_t* m, pfs_instance_t* mutex, const struct timespec* deadline, PFS_SITE_) {
  return WaitFor(c, mutex, Operation::kCondTimedWait, file, line, [=] { return pthread_cond_timedwait(&c->cond, m, deadline); });
}

int pfs_cond_clockwait_(pfs_cond_t* c, pthread_mutex_t* m, pfs_instance_t* mutex, clockid_t clock, const struct timespec* deadline,
                        PFS_SITE_) {
  return WaitFor(c, mutex, Operation::kCondTimedWait, file, line, [=] { return perfschema::CondClockWait(&c->cond, m, clock, deadline); });
}

pfs_instance_t* pfs_cond_create(pfs_key_t key, const void* identity) {
  return key != 0 ? perfschema::CreateInstance(Family::kCond, key, identity) : nullptr;
}

pfs_instance_t* pfs_wait_create(pfs_key_t key, const void* identity) {
  return key != 0 ? perfschema::CreateInstance(Family::kOwnWait, key, identity) : nullptr;
}

void pfs_cond_discard(pfs_instance_t* instance) {
  if (instance != nullptr) perfschema::DestroyInstance(instance);
}

int pfs_cond_wait_begin_(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_cond_op op, PFS_SITE_) {
  const Operation operation = op == PFS_TIMED_WAIT ? Operation::kCondTimedWait : Operation::kCondWait;
  return perfschema::capi::BeginOwnWait(wait, instance, operation, file, line);
}

// `rc` does not affect the tables today: a wait that timed out is also a wait.
void pfs_cond_wait_end_(pfs_wait_t* wait, int rc) {
  static_cast<void>(rc);
  perfschema::capi::EndOwnCondWait(wait);
}

}  // extern "C"
