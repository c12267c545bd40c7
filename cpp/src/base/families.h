// base/families.h: the families of instruments: prefix of the name, limit of classes, what their objects are.
#pragma once

#include <cstdint>
#include <string_view>

namespace perfschema {

// One row a family (schema/instruments.json). Order = order in setup_instruments.
enum class Family : uint8_t { kNone = 0, kMutex, kFile, kThread };
inline constexpr int kFamilyCount = 4;

struct FamilyFacts {
  std::string_view prefix;       // of the full name, without the last '/'
  std::string_view option;       // variable that limits the number of classes
  std::string_view object_type;  // OBJECT_TYPE of its events; empty = NULL
  bool is_wait;                  // its events are waits: setup_instruments row, cell in every thread
};
inline constexpr FamilyFacts kFamilies[kFamilyCount] = {
    {"", "", "", false},
    {"wait/synch/mutex", "max_mutex_classes", "", true},
    {"wait/io/file", "max_file_classes", "FILE", true},
    {"thread", "max_thread_classes", "", false},
};

// What an event did. Names as in schema/operations.json; the group decides which of READ/WRITE/MISC counts it.
enum class OperationGroup : uint8_t { kMisc = 0, kRead, kWrite };

// X(identifier, shown, group)
#define PFS_FOR_EACH_OPERATION(X)  \
  X(kNone, "", kMisc)              \
  X(kLock, "lock", kMisc)          \
  X(kTryLock, "try_lock", kMisc)   \
  X(kTimedLock, "lock", kMisc)     \
  X(kCreate, "create", kMisc)      \
  X(kOpen, "open", kMisc)          \
  X(kClose, "close", kMisc)        \
  X(kRead, "read", kRead)          \
  X(kWrite, "write", kWrite)       \
  X(kSeek, "seek", kMisc)          \
  X(kTell, "tell", kMisc)          \
  X(kFlush, "flush", kMisc)        \
  X(kStat, "stat", kMisc)          \
  X(kChsize, "chsize", kMisc)      \
  X(kDelete, "delete", kMisc)      \
  X(kRename, "rename", kMisc)      \
  X(kSync, "sync", kMisc)          \
  X(kMkdir, "mkdir", kMisc)        \
  X(kRmdir, "rmdir", kMisc)

enum class Operation : uint8_t {
#define X(name, shown, group) name,
  PFS_FOR_EACH_OPERATION(X)
#undef X
      kCount
};
struct OperationFacts {
  std::string_view shown;
  OperationGroup group;
};
inline constexpr OperationFacts kOperations[] = {
#define X(name, shown, group) {shown, OperationGroup::group},
    PFS_FOR_EACH_OPERATION(X)
#undef X
};

}  // namespace perfschema
