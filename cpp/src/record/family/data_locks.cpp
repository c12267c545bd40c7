#include "record/family/data_locks.h"

#include <pthread.h>

#include <algorithm>

#include "record/engine/runtime.h"

namespace perfschema {
namespace {

// Held while inspectors run: unregistering waits for them. Acquired before the cold lock, which inspectors may need.
pthread_mutex_t scan_mutex = PTHREAD_MUTEX_INITIALIZER;
thread_local bool t_scans = false;

// Changed under both locks, so that a forked child finds it consistent.
constexpr size_t kMost = 64;
const pfs_data_lock_inspector_t* inspectors[kMost];
size_t inspector_count = 0;

// Threads: external lock. A thread that is cancelled in an inspector would leave the lock held.
class ScanLock {
 public:
  ScanLock() : held_(!t_scans) {
    if (!held_) return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    pthread_mutex_lock(&scan_mutex);
    t_scans = true;
  }
  ~ScanLock() {
    if (!held_) return;
    t_scans = false;
    pthread_mutex_unlock(&scan_mutex);
    pthread_setcancelstate(cancel_state_, nullptr);
  }
  ScanLock(const ScanLock&) = delete;
  ScanLock& operator=(const ScanLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  bool held_;
  int cancel_state_ = 0;
};

template <typename Change>
Status ChangeInspectors(Change change) {
  const ScanLock scan;
  if (!scan) return Status(Code::kState, "an inspector of data locks cannot register or unregister inspectors");
  const ColdLock cold;
  if (!cold) return Status(Code::kState, "inspectors of data locks cannot be changed in a signal handler that interrupted pfs");
  return change();
}

template <typename Rows, typename Function>
void Scan(Rows* rows, Function function) {
  const ScanLock lock;
  if (!lock) return;
  for (size_t i = 0; i < inspector_count; ++i) {
    rows->engine = inspectors[i]->engine;
    if (inspectors[i]->*function != nullptr) (inspectors[i]->*function)(inspectors[i]->self, rows);
  }
}

}  // namespace

Status RegisterInspector(const pfs_data_lock_inspector_t* inspector) {
  if (inspector == nullptr || inspector->engine == nullptr)
    return Status(Code::kInvalidArgument, "an inspector of data locks needs the name of its engine");
  return ChangeInspectors([&] {
    if (std::find(inspectors, inspectors + inspector_count, inspector) != inspectors + inspector_count) {
      return Status(Code::kExists, "this inspector of data locks is registered already");
    }
    if (inspector_count == kMost) return Status(Code::kFull, "there are " + std::to_string(kMost) + " inspectors of data locks already");
    inspectors[inspector_count++] = inspector;
    return Status();
  });
}

Status UnregisterInspector(const pfs_data_lock_inspector_t* inspector) {
  return ChangeInspectors([&] {
    const auto end = inspectors + inspector_count;
    const auto found = std::find(inspectors, end, inspector);
    if (found == end) return Status(Code::kNotFound, "this inspector of data locks is not registered");
    std::copy(found + 1, end, found);
    --inspector_count;
    return Status();
  });
}

void ScanDataLocks(pfs_data_locks* rows) { Scan(rows, &pfs_data_lock_inspector_t::scan); }
void ScanDataLockWaits(pfs_data_lock_waits* rows) { Scan(rows, &pfs_data_lock_inspector_t::scan_waits); }

void ForgetInspectorsScans() {
  // Inside an inspector the forking thread holds the lock itself, and releases it as its own.
  if (!t_scans) pthread_mutex_init(&scan_mutex, nullptr);
}

}  // namespace perfschema
