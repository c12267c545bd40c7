// bindings/bind_waits.cpp: the program's own waits, behind pfs.wait, pfs.idle and pfs.Table.
#include <pybind11/stl.h>

#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perfschema/server.h"
#include "pybind.h"  // comes first
#include "record/family/elsewhere.h"
#include "tasks.h"

namespace perfschema::bindings {

// Holds the open waits of a task. They fill from the end, so that inner ones have lower addresses, as on a stack: the library takes waits
// at lower addresses than a new one as abandoned.
// Threads: the GIL is held.
struct OpenWaits {
  static constexpr int kMost = 64;
  struct Entry {
    const void* point;  // object of the wait; nullptr = ended
    uint64_t number;    // the newest has the largest
    pfs_wait_t wait;
  } entries[kMost];
  int used;
  TaskObject* task;
  OpenWaits *next, **place;  // the list of all
};

namespace {

OpenWaits* all_waits;
Guard all_waits_guard;

// Returns the waits of the running task. nullptr: no memory.
OpenWaits* WaitsHere() {
  ThreadTasks* const tasks = SwitchToRunningTask(Purpose::kBlock);
  if (tasks == nullptr) return nullptr;
  OpenWaits*& waits = tasks->current->waits;
  if (__builtin_expect(waits != nullptr, 1)) return waits;
  waits = static_cast<OpenWaits*>(PyMem_RawCalloc(1, sizeof(OpenWaits)));
  if (waits == nullptr) return nullptr;
  waits->task = tasks->current;
  Alone(all_waits_guard, [&] {
    waits->next = all_waits;
    waits->place = &all_waits;
    if (all_waits != nullptr) all_waits->place = &waits->next;
    all_waits = waits;
  });
  return waits;
}

// Calls begin(wait, call site), which begins a wait at a point, if it is instrumented. Returns false if the nesting is far deeper than is
// recorded.
template <typename Begin>
bool BeginAt(const void* point, bool is_enabled, Begin begin) {
  static uint64_t numbers = 0;
  OpenWaits* const open = WaitsHere();
  if (open == nullptr || open->used == OpenWaits::kMost) return false;
  OpenWaits::Entry& entry = open->entries[OpenWaits::kMost - ++open->used];
  entry.point = point;
  entry.number = Next(numbers);
  entry.wait.instance = nullptr;
  if (is_enabled) begin(&entry.wait, FindCallSite());
  return true;
}

// Returns the innermost open wait at this point; nullptr: the task has none.
OpenWaits::Entry* InnermostAt(OpenWaits& open, const void* point) {
  for (int depth = open.used; depth > 0; --depth) {
    OpenWaits::Entry& entry = open.entries[OpenWaits::kMost - depth];
    if (entry.point == point) return &entry;
  }
  return nullptr;
}

// Finds the newest of all open waits at this point: another thread, or another task, has begun the block. nullptr: there is none; it was
// too deep. REQUIRES: no other thread runs.
OpenWaits::Entry* FindElsewhere(const void* point, OpenWaits** its) {
  OpenWaits::Entry* found = nullptr;
  for (OpenWaits* at = all_waits; at != nullptr; at = at->next) {
    OpenWaits::Entry* const entry = InnermostAt(*at, point);
    if (entry == nullptr || (found != nullptr && entry->number < found->number)) continue;
    found = entry;
    *its = at;
  }
  return found;
}

// Makes a wait that another task or thread began one that the usual end ends.
void TakeFrom(const TaskObject* task, pfs_wait_t* wait) {
  if (t_tasks.tasks == nullptr || wait->instance == nullptr) return;
  if (task->thread_number == t_tasks.tasks->number) return (void)SwitchToTask(const_cast<TaskObject*>(task));
  NoteEndedElsewhere(task, TakeWait(*reinterpret_cast<Wait*>(wait->opaque), TasksOf(task) != nullptr), Ended::kWait);
}

template <typename End>
void EndEntry(OpenWaits& open, OpenWaits::Entry& entry, End end) {
  end(&entry.wait);
  entry.point = nullptr;
  while (open.used > 0 && open.entries[OpenWaits::kMost - open.used].point == nullptr) --open.used;
}

// Calls end(wait) for the wait at this point: the innermost one of the running task, else the newest of all. Returns false if there is none
// (it began too deep).
template <typename End>
bool EndAt(const void* point, End end) {
  OpenWaits* open = WaitsHere();
  if (open == nullptr) return false;
  if (OpenWaits::Entry* const entry = InnermostAt(*open, point); __builtin_expect(entry != nullptr, 1))
    return EndEntry(*open, *entry, end), true;
  bool is_there = false;
  StopOthers([&] {
    OpenWaits::Entry* const entry = FindElsewhere(point, &open);
    is_there = entry != nullptr;
    if (!is_there) return;
    TakeFrom(open->task, &entry->wait);
    EndEntry(*open, *entry, end);
  });
  return is_there;
}

// ---- pfs.wait ----------------------------------------------------------------------------------------------------------------------

// A place where a program waits: one per name, made at its first use, never freed.
struct NamedWait {
  std::string name;
  pfs_instance_t* instance;
};

// Is what a pfs.wait has of its own: another thread that ends a block finds the block by it.
struct WaitPoint {
  const NamedWait* named;

  void Begin() const {
    BeginAt(this, pfs_enabled_(named->instance),
            [this](pfs_wait_t* wait, CallSite site) { pfs_cond_wait_begin_at(wait, named->instance, PFS_WAIT, site.file, site.line); });
  }
  void End() const {
    EndAt(this, [](pfs_wait_t* wait) { pfs_cond_wait_end(wait, 0); });
  }
};

const NamedWait* FindNamedWait(const std::string& name) {
  static auto& all = *new std::map<std::string, const NamedWait*>;
  static Guard guard;
  const uint32_t key = RegisterName(NameFamily::kOwnWait, name);
  return Alone(guard, [&] {
    const std::string full = FullName(NameFamily::kOwnWait, name);
    const NamedWait*& named = all[full];
    if (named == nullptr) {
      auto fresh = std::make_unique<NamedWait>(NamedWait{full, nullptr});
      fresh->instance = pfs_wait_create(key, fresh.get());
      named = fresh.release();
    }
    return named;
  });
}

// ---- pfs.idle ----------------------------------------------------------------------------------------------------------------------

const char idle_point = 0;

void BeginIdle() {
  BeginAt(&idle_point, true, [](pfs_wait_t* wait, CallSite site) { pfs_idle_begin_at(wait, site.file, site.line); });
}
void EndIdle() { EndAt(&idle_point, pfs_idle_end); }

// ---- pfs.Table ---------------------------------------------------------------------------------------------------------------------

// A handle. It is closed when no thread is in a wait on it.
// Threads: the GIL is held, or `guard_`: see the methods that Python calls.
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
    const bool is_enabled = table_ != nullptr && pfs_flags_enabled_(&table_->flags[0]);
    Begin(is_enabled, [&](pfs_wait_t* wait, CallSite site) {
      pfs_table_io_begin_at(wait, table_, static_cast<pfs_table_io>(operation), index, site.file, site.line);
    });
  }
  void EndIo(uint64_t rows) {
    End([rows](pfs_wait_t* wait) { pfs_table_io_end(wait, rows); });
  }
  void BeginLock(int lock) {
    const bool is_enabled = table_ != nullptr && pfs_flags_enabled_(&table_->flags[1]);
    Begin(is_enabled, [&](pfs_wait_t* wait, CallSite site) {
      pfs_table_lock_begin_at(wait, table_, static_cast<pfs_table_lock>(lock), site.file, site.line);
    });
  }
  void EndLock(bool held) {
    End([held](pfs_wait_t* wait) { pfs_table_lock_end(wait, held ? 0 : EBUSY); });
  }
  void Unlock() { pfs_table_unlock(table_); }
  // A method that runs alone.
  template <auto kMethod, typename... Arguments>
  static void Call(TableHandle& self, Arguments... arguments) {
    Alone(self.guard_, [&] { (self.*kMethod)(arguments...); });
  }
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
  [[no_unique_address]] Guard guard_;
};

}  // namespace

void FreeWaits(OpenWaits* waits) {
  if (waits == nullptr) return;
  Alone(all_waits_guard, [waits] {
    *waits->place = waits->next;
    if (waits->next != nullptr) waits->next->place = waits->place;
  });
  PyMem_RawFree(waits);
}

void BindWaits(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  py::class_<WaitPoint>(m, "WaitPoint", "A place where the program itself waits.")
      .def(py::init([](const std::string& name) { return WaitPoint{FindNamedWait(name)}; }), py::arg("name"))
      .def_property_readonly("name", [](const WaitPoint& point) { return point.named->name; })
      .def("begin", &WaitPoint::Begin)
      .def("end", &WaitPoint::End);
  m.def("idle_begin", BeginIdle);
  m.def("idle_end", EndIdle);
  py::class_<TableHandle>(m, "TableHandle", "An open table of the program's own.")
      .def(py::init<const std::string&, const std::string&, const std::vector<std::string>&, bool>(), py::arg("schema"), py::arg("name"),
           py::arg("indexes"), py::arg("temporary"))
      .def("io_begin", &TableHandle::Call<&TableHandle::BeginIo, int, int>, py::arg("operation"), py::arg("index"))
      .def("io_end", &TableHandle::Call<&TableHandle::EndIo, uint64_t>, py::arg("rows"))
      .def("lock_begin", &TableHandle::Call<&TableHandle::BeginLock, int>, py::arg("lock"))
      .def("lock_end", &TableHandle::Call<&TableHandle::EndLock, bool>, py::arg("held"))
      .def("unlock", &TableHandle::Call<&TableHandle::Unlock>)
      .def("drop", &TableHandle::Drop)
      .def("close", &TableHandle::Call<&TableHandle::Close>);
}

}  // namespace perfschema::bindings
