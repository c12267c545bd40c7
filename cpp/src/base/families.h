// base/families.h: the families of instruments: prefix of the name, limit of classes, kind of their objects.
#pragma once

#include <cstdint>
#include <string_view>

namespace perfschema {

// Says what is counted, which determines the shape of its statistics (shm/shapes.h). The first four are events, which are recorded as
// well.
enum class Kind : uint8_t { kWait = 0, kStage, kStatement, kTransaction, kMemory, kError, kStatus, kCount, kNone = kCount };
inline constexpr uint32_t kKindCount = static_cast<uint32_t>(Kind::kCount);
inline constexpr uint32_t kEventKinds = 4;

// Names the families, one row each. Order = order in setup_instruments. kErrorNumber holds the registered
// errors, kStatus the registered status variables. They have columns in all rows, as instruments do, but are no instruments.
enum class Family : uint8_t {
  kNone = 0,
  kMutex,
  kRwlock,
  kPrlock,
  kSxlock,
  kCond,
  kFile,
  kTableIo,
  kTableLock,
  kStage,
  kStatement,
  kTransaction,
  kSocket,
  kIdle,
  kOwnMemory,
  kMemory,
  kMetadata,
  kError,
  kThread,
  kErrorNumber,
  kStatus,
  kOwnWait,    // waits of the program for anything
  kSystemWait  // waits in the C library for what is no object of MySQL; new families come last, because segments hold these numbers
};
inline constexpr int kFamilyCount = 23;

// Groups the families that one TRUNCATE empties together (semantics.md F8-F11). Each has two reset domains: live objects, and sums that
// classes keep.
enum class ResetGroup : uint8_t { kSync = 0, kFile, kSocket, kTableIo, kTableLock, kHold, kCount };

// Lanes per object: of files and sockets, of tables and indexes, of table locks. Synchronization objects have one.
inline constexpr uint8_t kFileLanes = 3, kTableIoLanes = 4, kTableLockLanes = 10, kMostLanes = kTableLockLanes;

struct FamilyTraits {
  std::string_view prefix;       // of the full name, without the last '/'; the full name of a single instrument
  std::string_view object_type;  // OBJECT_TYPE of its events; empty = NULL, or the object has it
  Kind kind;                     // kind of the statistics; kNone: none
  bool is_single;                // one instrument, made at start
  uint8_t lanes;                 // statistics per object, one for each kind of operation
  ResetGroup group;
  bool is_timed = true;       // false: TIMED is NULL (semantics.md C2)
  bool is_instrument = true;  // has a row in setup_instruments, if it has a kind
};
inline constexpr FamilyTraits kFamilies[kFamilyCount] = {
    {"", "", Kind::kNone, false, 0, ResetGroup::kSync},
    {"wait/synch/mutex", "", Kind::kWait, false, 1, ResetGroup::kSync},
    {"wait/synch/rwlock", "", Kind::kWait, false, 1, ResetGroup::kSync},
    {"wait/synch/prlock", "", Kind::kWait, false, 1, ResetGroup::kSync},
    {"wait/synch/sxlock", "", Kind::kWait, false, 1, ResetGroup::kSync},
    {"wait/synch/cond", "", Kind::kWait, false, 1, ResetGroup::kSync},
    {"wait/io/file", "FILE", Kind::kWait, false, kFileLanes, ResetGroup::kFile},
    {"wait/io/table/sql/handler", "", Kind::kWait, true, kTableIoLanes, ResetGroup::kTableIo},
    {"wait/lock/table/sql/handler", "", Kind::kWait, true, kTableLockLanes, ResetGroup::kTableLock},
    {"stage", "", Kind::kStage, false, 0, ResetGroup::kSync},
    {"statement", "", Kind::kStatement, false, 0, ResetGroup::kSync},
    {"transaction", "", Kind::kTransaction, true, 0, ResetGroup::kSync},
    {"wait/io/socket", "SOCKET", Kind::kWait, false, kFileLanes, ResetGroup::kSocket},
    {"idle", "", Kind::kWait, true, 1, ResetGroup::kSync},
    {"memory/performance_schema", "", Kind::kNone, false, 0, ResetGroup::kSync, false},  // the arrays of the segment: computed by readers
    {"memory", "", Kind::kMemory, false, 0, ResetGroup::kSync, false},
    {"wait/lock/metadata/sql/mdl", "", Kind::kWait, true, 1, ResetGroup::kSync},
    {"error", "", Kind::kError, true, 0, ResetGroup::kSync, false},
    {"thread", "", Kind::kNone, false, 0, ResetGroup::kSync, true, false},
    {"", "", Kind::kError, false, 0, ResetGroup::kSync, false, false},
    {"", "", Kind::kStatus, false, 0, ResetGroup::kSync, false, false},
    {"wait/app", "", Kind::kWait, false, 1, ResetGroup::kSync},
    {"wait/system", "", Kind::kWait, false, 1, ResetGroup::kSync},
};
constexpr const FamilyTraits& TraitsOf(Family family) { return kFamilies[static_cast<int>(family)]; }

// Names of the lanes, in the same order. Synchronization objects have lane 0 only.
inline constexpr uint8_t kMiscLane = 0, kReadLane = 1, kWriteLane = 2;
inline constexpr uint8_t kFetchLane = 0, kInsertLane = 1, kUpdateLane = 2, kDeleteLane = 3;
inline constexpr uint8_t kReadNormalLane = 0, kReadSharedLane = 1, kReadHighPriorityLane = 2, kReadNoInsertLane = 3, kReadExternalLane = 4,
                         kWriteAllowWriteLane = 5, kWriteConcurrentInsertLane = 6, kWriteLowPriorityLane = 7, kWriteNormalLane = 8,
                         kWriteExternalLane = 9;

// Names the operation of an event, as OPERATION shows it, and the lane that counts it.
// X(identifier, shown, lane)
#define PFS_FOR_EACH_OPERATION(X)                                                  \
  X(kNone, "", 0)                                                                  \
  X(kLock, "lock", 0)                                                              \
  X(kTryLock, "try_lock", 0)                                                       \
  X(kTimedLock, "lock", 0)                                                         \
  X(kReadLock, "read_lock", 0)                                                     \
  X(kWriteLock, "write_lock", 0)                                                   \
  X(kTryReadLock, "try_read_lock", 0)                                              \
  X(kTryWriteLock, "try_write_lock", 0)                                            \
  X(kTimedReadLock, "read_lock", 0)                                                \
  X(kTimedWriteLock, "write_lock", 0)                                              \
  X(kSharedLock, "shared_lock", 0)                                                 \
  X(kSharedExclusiveLock, "shared_exclusive_lock", 0)                              \
  X(kExclusiveLock, "exclusive_lock", 0)                                           \
  X(kTrySharedLock, "try_shared_lock", 0)                                          \
  X(kTrySharedExclusiveLock, "try_shared_exclusive_lock", 0)                       \
  X(kTryExclusiveLock, "try_exclusive_lock", 0)                                    \
  X(kCondWait, "wait", 0)                                                          \
  X(kCondTimedWait, "timed_wait", 0)                                               \
  X(kCreate, "create", kMiscLane)                                                  \
  X(kOpen, "open", kMiscLane)                                                      \
  X(kClose, "close", kMiscLane)                                                    \
  X(kRead, "read", kReadLane)                                                      \
  X(kWrite, "write", kWriteLane)                                                   \
  X(kSeek, "seek", kMiscLane)                                                      \
  X(kTell, "tell", kMiscLane)                                                      \
  X(kFlush, "flush", kMiscLane)                                                    \
  X(kStat, "stat", kMiscLane)                                                      \
  X(kChsize, "chsize", kMiscLane)                                                  \
  X(kDelete, "delete", kMiscLane)                                                  \
  X(kRename, "rename", kMiscLane)                                                  \
  X(kSync, "sync", kMiscLane)                                                      \
  X(kMkdir, "mkdir", kMiscLane)                                                    \
  X(kRmdir, "rmdir", kMiscLane)                                                    \
  X(kSocketCreate, "create", kMiscLane)                                            \
  X(kSocketClose, "close", kMiscLane)                                              \
  X(kSocketSeek, "seek", kMiscLane)                                                \
  X(kSocketStat, "stat", kMiscLane)                                                \
  X(kConnect, "connect", kMiscLane)                                                \
  X(kListen, "listen", kMiscLane)                                                  \
  X(kAccept, "accept", kMiscLane)                                                  \
  X(kBind, "bind", kMiscLane)                                                      \
  X(kSend, "send", kWriteLane)                                                     \
  X(kRecv, "recv", kReadLane)                                                      \
  X(kSendto, "sendto", kWriteLane)                                                 \
  X(kRecvfrom, "recvfrom", kReadLane)                                              \
  X(kSendmsg, "sendmsg", kWriteLane)                                               \
  X(kRecvmsg, "recvmsg", kReadLane)                                                \
  X(kOpt, "opt", kMiscLane)                                                        \
  X(kShutdown, "shutdown", kMiscLane)                                              \
  X(kSelect, "select", kMiscLane)                                                  \
  X(kFetch, "fetch", kFetchLane)                                                   \
  X(kInsert, "insert", kInsertLane)                                                \
  X(kUpdate, "update", kUpdateLane)                                                \
  X(kDeleteRow, "delete", kDeleteLane)                                             \
  X(kReadNormal, "read normal", kReadNormalLane)                                   \
  X(kReadShared, "read with shared locks", kReadSharedLane)                        \
  X(kReadHighPriority, "read high priority", kReadHighPriorityLane)                \
  X(kReadNoInsert, "read no inserts", kReadNoInsertLane)                           \
  X(kReadExternal, "read external", kReadExternalLane)                             \
  X(kWriteAllowWrite, "write allow write", kWriteAllowWriteLane)                   \
  X(kWriteConcurrentInsert, "write concurrent insert", kWriteConcurrentInsertLane) \
  X(kWriteLowPriority, "write low priority", kWriteLowPriorityLane)                \
  X(kWriteNormal, "write normal", kWriteNormalLane)                                \
  X(kWriteExternal, "write external", kWriteExternalLane)                          \
  X(kIdle, "idle", 0)                                                              \
  X(kMetadataLock, "metadata lock", 0)                                             \
  X(kFileLock, "lock", kMiscLane)

enum class Operation : uint8_t {
#define X(name, shown, lane) name,
  PFS_FOR_EACH_OPERATION(X)
#undef X
      kCount
};
struct OperationTraits {
  std::string_view shown;
  uint8_t lane;
};
inline constexpr OperationTraits kOperations[] = {
#define X(name, shown, lane) {shown, lane},
    PFS_FOR_EACH_OPERATION(X)
#undef X
};

// Returns whether a thread can hold an object of the family exclusively: hold times exist for it.
constexpr bool HasOneHolder(Family family) {
  return family == Family::kMutex || family == Family::kRwlock || family == Family::kPrlock || family == Family::kSxlock;
}

// Returns whether the operation is on a socket; IoGroupOf: the group of an operation on a file or a socket.
constexpr bool IsOfSocket(Operation operation) { return operation >= Operation::kSocketCreate && operation <= Operation::kSelect; }
constexpr ResetGroup IoGroupOf(Operation operation) { return IsOfSocket(operation) ? ResetGroup::kSocket : ResetGroup::kFile; }

// Maps a call that files and sockets share to its operation on a socket: read() receives. kNone: sockets have no such operation.
constexpr Operation OnSocket(Operation operation) {
  switch (operation) {
    case Operation::kRead:
      return Operation::kRecv;
    case Operation::kWrite:
      return Operation::kSend;
    case Operation::kClose:
      return Operation::kSocketClose;
    case Operation::kSeek:
    case Operation::kTell:
      return Operation::kSocketSeek;
    case Operation::kStat:
      return Operation::kSocketStat;
    default:
      return Operation::kNone;
  }
}

}  // namespace perfschema
