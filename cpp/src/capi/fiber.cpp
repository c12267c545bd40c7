#include <cstring>

#include "perfschema/pfs.h"
#include "record/context/tasks.h"

using perfschema::Task;
using perfschema::TaskParent;

namespace {

static_assert(sizeof(TaskParent) <= sizeof(pfs_fiber_parent_t::opaque));

Task* AsTask(pfs_fiber_t* task) { return reinterpret_cast<Task*>(task); }

}  // namespace

extern "C" {

void pfs_fiber_parent(pfs_fiber_parent_t* parent) {
  if (parent == nullptr) return;
  const TaskParent found = perfschema::DescribeTaskParent();
  std::memcpy(parent->opaque, &found, sizeof found);
}

pfs_fiber_t* pfs_fiber_create(const pfs_fiber_parent_t* parent) {
  TaskParent given{};
  if (parent != nullptr) std::memcpy(&given, parent->opaque, sizeof given);
  return reinterpret_cast<pfs_fiber_t*>(perfschema::MakeTask(parent == nullptr ? nullptr : &given));
}

int pfs_fiber_switch(pfs_fiber_t* task) { return perfschema::SwitchTo(AsTask(task)) ? 1 : 0; }
void pfs_fiber_destroy(pfs_fiber_t* task) { perfschema::DestroyTask(AsTask(task)); }

}  // extern "C"
