// bindings/bind_waits.cpp: the program's own waits, behind pfs.wait, pfs.idle and pfs.Table.
#include <pybind11/stl.h>

#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perfschema/pfs.h"
#include "pybind.h"  // comes first
#include "tasks.h"

namespace perfschema::bindings {

namespace {

// Holds the open waits of a task. They fill from the end, so that inner ones have lower addresses, as on a stack: the library takes waits
// at lower addresses than a new one as abandoned.
// Threads: owner thread.
struct OpenWaits {
  static constexpr int kMost = 64;
  struct Entry {
    const void* point;  // object of the wait; nullptr = ended
    pfs_wait_t wait;
  } entries[kMost];
  int used;
};

// Returns the waits of the running task. nullptr: no memory.
OpenWaits* WaitsHere() {
  ThreadTasks* const tasks = SwitchToRunningTask(Purpose::kBlock);
  if (tasks == nullptr) return nullptr;
  void*& waits = tasks->current->waits;
  if (waits == nullptr) waits = PyMem_RawCalloc(1, sizeof(OpenWaits));
  return static_cast<OpenWaits*>(waits);
}

// Calls begin(wait, call site), which begins a wait at a point, if it is instrumented. Returns false if the nesting is far deeper than is
// recorded.
template <typename Begin>
bool BeginAt(const void* point, bool is_enabled, Begin begin) {
  OpenWaits* const open = WaitsHere();
  if (open == nullptr || open->used == OpenWaits::kMost) return false;
  OpenWaits::Entry& entry = open->entries[OpenWaits::kMost - ++open->used];
  entry.point = point;
  entry.wait.instance = nullptr;
  if (is_enabled) begin(&entry.wait, FindCallSite());
  return true;
}

// Calls end(wait) for the innermost open wait at this point. Returns false if this task has none (it began elsewhere, or too deep).
template <typename End>
bool EndAt(const void* point, End end) {
  OpenWaits* const open = WaitsHere();
  if (open == nullptr) return false;
  bool found = false;
  for (int depth = open->used; depth > 0 && !found; --depth) {
    OpenWaits::Entry& entry = open->entries[OpenWaits::kMost - depth];
    if (entry.point != point) continue;
    end(&entry.wait);
    entry.point = nullptr;
    found = true;
  }
  while (open->used > 0 && open->entries[OpenWaits::kMost - open->used].point == nullptr) --open->used;
  return found;
}

// ---- pfs.wait ----------------------------------------------------------------------------------------------------------------------

// Is a place where a program waits: one per name, made at its first use, never freed.
struct WaitPoint {
  std::string name;
  pfs_instance_t* instance;

  void Begin() const {
    BeginAt(this, pfs_enabled(instance),
            [this](pfs_wait_t* wait, CallSite site) { pfs_cond_wait_begin_at(wait, instance, PFS_WAIT, site.file, site.line); });
  }
  void End() const {
    EndAt(this, [](pfs_wait_t* wait) { pfs_cond_wait_end(wait, 0); });
  }
};

WaitPoint* FindWaitPoint(std::string name) {
  // The full name of releases in which these waits were mutexes.
  if (constexpr std::string_view kFormer = "wait/synch/mutex/"; name.starts_with(kFormer)) name.erase(0, kFormer.size());
  static auto& points = *new std::map<std::string, WaitPoint*>;
  std::string full = FullName(NameFamily::kOwnWait, name);
  WaitPoint*& point = points[full];
  if (point == nullptr) {
    auto fresh = std::make_unique<WaitPoint>(WaitPoint{full, nullptr});
    fresh->instance = pfs_wait_create(RegisterName(NameFamily::kOwnWait, name), fresh.get());
    point = fresh.release();
  }
  return point;
}

// ---- pfs.idle ----------------------------------------------------------------------------------------------------------------------

const char idle_point = 0;

void BeginIdle() {
  BeginAt(&idle_point, true, [](pfs_wait_t* wait, CallSite site) { pfs_idle_begin_at(wait, site.file, site.line); });
}
void EndIdle() { EndAt(&idle_point, pfs_idle_end); }

// ---- pfs.Table ---------------------------------------------------------------------------------------------------------------------

// Is a handle. It is closed when no thread is in a wait on it.
// Threads: the GIL is held.
class TableHandle {
 public:
  TableHandle(const std::string& schema, const std::string& name, const std::vector<std::string>& indexes, bool temporary)
      : type_(temporary ? PFS_OBJECT_TEMPORARY_TABLE : PFS_OBJECT_TABLE), schema_(schema), name_(name) {
    std::vector<const char*> names;
    for (const std::string& index : indexes) names.push_back(index.c_str());
    (void)FindCallSite();  // names the thread, which the handle shows as its owner
    table_ = pfs_table_open(type_, schema.c_str(), name.c_str(), this, names.data(), static_cast<int>(names.size()));
  }
  ~TableHandle() { pfs_table_close(table_); }
  TableHandle(const TableHandle&) = delete;
  TableHandle& operator=(const TableHandle&) = delete;

  void BeginIo(int operation, int index) {
    const bool is_enabled = table_ != nullptr && pfs_flags_enabled(&table_->flags[0]);
    Begin(is_enabled, [&](pfs_wait_t* wait, CallSite site) {
      pfs_table_io_begin_at(wait, table_, static_cast<pfs_table_io>(operation), index, site.file, site.line);
    });
  }
  void EndIo(uint64_t rows) {
    End([rows](pfs_wait_t* wait) { pfs_table_io_end(wait, rows); });
  }
  void BeginLock(int lock) {
    const bool is_enabled = table_ != nullptr && pfs_flags_enabled(&table_->flags[1]);
    Begin(is_enabled, [&](pfs_wait_t* wait, CallSite site) {
      pfs_table_lock_begin_at(wait, table_, static_cast<pfs_table_lock>(lock), site.file, site.line);
    });
  }
  void EndLock(bool held) {
    End([held](pfs_wait_t* wait) { pfs_table_lock_end(wait, held ? 0 : EBUSY); });
  }
  void Unlock() { pfs_table_unlock(table_); }
  void Drop() const { pfs_table_drop(type_, schema_.c_str(), name_.c_str()); }
  void Close() {
    is_closed_ = true;
    CloseIfUnused();
  }

 private:
  template <typename Function>
  void Begin(bool is_enabled, Function begin) {
    if (BeginAt(this, is_enabled && !is_closed_, begin)) ++open_waits_;
  }
  template <typename Function>
  void End(Function end) {
    if (EndAt(this, end)) --open_waits_;
    CloseIfUnused();
  }
  void CloseIfUnused() {
    if (!is_closed_ || open_waits_ != 0) return;
    pfs_table_close(table_);
    table_ = nullptr;
  }

  pfs_object_type type_;
  std::string schema_, name_;
  pfs_table_t* table_;
  int open_waits_ = 0;
  bool is_closed_ = false;
};

}  // namespace

void BindWaits(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  py::class_<WaitPoint, std::unique_ptr<WaitPoint, py::nodelete>>(m, "WaitPoint", "A place where the program itself waits.")
      .def(py::init(&FindWaitPoint), py::arg("name"))
      .def_property_readonly("name", [](const WaitPoint& point) { return point.name; })
      .def("begin", &WaitPoint::Begin)
      .def("end", &WaitPoint::End);
  m.def("idle_begin", BeginIdle);
  m.def("idle_end", EndIdle);
  py::class_<TableHandle>(m, "TableHandle", "An open table of the program's own.")
      .def(py::init<const std::string&, const std::string&, const std::vector<std::string>&, bool>(), py::arg("schema"), py::arg("name"),
           py::arg("indexes"), py::arg("temporary"))
      .def("io_begin", &TableHandle::BeginIo, py::arg("operation"), py::arg("index"))
      .def("io_end", &TableHandle::EndIo, py::arg("rows"))
      .def("lock_begin", &TableHandle::BeginLock, py::arg("lock"))
      .def("lock_end", &TableHandle::EndLock, py::arg("held"))
      .def("unlock", &TableHandle::Unlock)
      .def("drop", &TableHandle::Drop)
      .def("close", &TableHandle::Close);
}

}  // namespace perfschema::bindings
