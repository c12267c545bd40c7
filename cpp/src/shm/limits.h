// shm/limits.h: the options that limit a family, and the counters of their losses.
#pragma once

#include "shm/layout.h"

namespace perfschema {

struct FamilyLimits {
  OptionId classes;
  Loss classes_lost;
  OptionId instances;  // live objects
  Loss instances_lost;
};

// REQUIRES: a family whose instruments programs register. prlocks and sxlocks share the limits of rwlocks, waits of the program those of
// mutexes; threads have no further objects.
constexpr FamilyLimits LimitsOf(Family family) {
  switch (family) {
    case Family::kRwlock:
    case Family::kPrlock:
    case Family::kSxlock:
      return {OptionId::max_rwlock_classes, Loss::kRwlockClasses, OptionId::max_rwlock_instances, Loss::kRwlockInstances};
    case Family::kCond:
      return {OptionId::max_cond_classes, Loss::kCondClasses, OptionId::max_cond_instances, Loss::kCondInstances};
    case Family::kFile:
      return {OptionId::max_file_classes, Loss::kFileClasses, OptionId::max_file_instances, Loss::kFileInstances};
    case Family::kSocket:
      return {OptionId::max_socket_classes, Loss::kSocketClasses, OptionId::max_socket_instances, Loss::kSocketInstances};
    case Family::kMemory:
      return {OptionId::max_memory_classes, Loss::kMemoryClasses, OptionId::kCount, Loss::kCount};
    case Family::kStage:
      return {OptionId::max_stage_classes, Loss::kStageClasses, OptionId::kCount, Loss::kCount};  // no objects
    case Family::kStatement:
      return {OptionId::max_statement_classes, Loss::kStatementClasses, OptionId::kCount, Loss::kCount};
    case Family::kThread:
      return {OptionId::max_thread_classes, Loss::kThreadClasses, OptionId::max_thread_instances, Loss::kThreadInstances};
    case Family::kErrorNumber:
      return {OptionId::error_size, Loss::kCount, OptionId::kCount, Loss::kCount};  // one row collects all further errors
    case Family::kStatus:
      return {OptionId::max_status_variables, Loss::kStatusVariables, OptionId::kCount, Loss::kCount};
    default:
      return {OptionId::max_mutex_classes, Loss::kMutexClasses, OptionId::max_mutex_instances, Loss::kMutexInstances};
  }
}

}  // namespace perfschema
