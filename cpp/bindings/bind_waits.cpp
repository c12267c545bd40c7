// bindings/bind_waits.cpp: the waits of one's own behind pfs.wait.
#include "bindings.h"  // Python.h comes first

#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "perfschema/pfs.h"

namespace perfschema::bindings {

namespace {

// Where a program waits for something: one per name, made at its first use, there for ever.
struct WaitPoint {
  std::string name;
  pfs_instance_t* instance;
};

WaitPoint* FindWaitPoint(const std::string& name) {
  static auto& points = *new std::map<std::string, WaitPoint*>;
  std::string full = FullName(NameFamily::kMutex, name);
  WaitPoint*& point = points[full];
  if (point == nullptr) {
    auto fresh = std::make_unique<WaitPoint>(WaitPoint{full, nullptr});
    fresh->instance = pfs_mutex_create(RegisterName(NameFamily::kMutex, name), fresh.get());
    point = fresh.release();
  }
  return point;
}

// The waits that a thread is in. They fill from the end, so that inner ones have lower addresses, as on a stack: the library takes
// waits at lower addresses than a new one's for left behind.
// Threads: owner thread.
struct OpenWaits {
  static constexpr int kMost = 64;
  struct Entry {
    const WaitPoint* point;  // nullptr = ended
    pfs_wait_t wait;
  } entries[kMost];
  int used;
};
thread_local OpenWaits t_open_waits;

void BeginWait(const WaitPoint* point) {
  OpenWaits& open = t_open_waits;
  if (open.used == OpenWaits::kMost) return;  // far deeper than events are recorded
  OpenWaits::Entry& entry = open.entries[OpenWaits::kMost - ++open.used];
  entry.point = point;
  entry.wait.instance = nullptr;
  if (pfs_enabled(point->instance)) {
    const CallSite site = FindCallSite();
    pfs_mutex_wait_begin_at(&entry.wait, point->instance, PFS_LOCK, site.file, site.line);
  }
}

// Ends the innermost open wait at this point. Nothing happens if this thread has none (it began elsewhere, or too deep).
void EndWait(const WaitPoint* point) {
  OpenWaits& open = t_open_waits;
  for (int depth = open.used; depth > 0; --depth) {
    OpenWaits::Entry& entry = open.entries[OpenWaits::kMost - depth];
    if (entry.point != point) continue;
    // Not 0: several threads may be in the wait at once, so that each counts for itself.
    pfs_mutex_wait_end(&entry.wait, EBUSY, PFS_NO_SPINS);
    entry.point = nullptr;
    break;
  }
  while (open.used > 0 && open.entries[OpenWaits::kMost - open.used].point == nullptr) --open.used;
}

}  // namespace

void BindWaits(py::module_& m) {
  py::class_<WaitPoint, std::unique_ptr<WaitPoint, py::nodelete>>(m, "WaitPoint", "Where a program waits for something of its own.")
      .def(py::init(&FindWaitPoint), py::arg("name"))
      .def_property_readonly("name", [](const WaitPoint& point) { return point.name; })
      .def("begin", [](const WaitPoint& point) { BeginWait(&point); })
      .def("end", [](const WaitPoint& point) { EndWait(&point); });
}

}  // namespace perfschema::bindings
