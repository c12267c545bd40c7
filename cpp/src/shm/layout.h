// shm/layout.h: every struct of the segment, and nothing else. cpp/src/shm/LAYOUT.md is its map.
//
// Rules: fixed-width types; no pointer, virtual, size_t, bool or enum; references are 1-based indices (0 = none) that a reader resolves
// through SegmentView::at(). Zero bytes mean free. One writer per cache line on the hot path.
// The file is untrusted for every reader: load an index once, check it, use the local copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/clock.h"
#include "base/consumers.h"
#include "base/families.h"
#include "perfschema/abi.h"
#include "shm/array.h"
#include "shm/flags.h"
#include "shm/governor.h"
#include "shm/layout_program.h"
#include "shm/levels.h"
#include "shm/losses.h"
#include "shm/records.h"
#include "shm/resets.h"
#include "shm/statements.h"
#include "shm/threads.h"

namespace perfschema {

inline constexpr uint64_t kSegmentMagic = 0x31304d4353465000u ^ 0x5a5a5a5a5a5a5a5au;  // XORed: a scan for the name does not hit this code
inline constexpr uint32_t kLayoutMajor = 10;
inline constexpr uint32_t kLayoutMinor = 0;
inline constexpr uint32_t kEndianMark = 0x01020304u;

// A minor version may change only this, so that readers of older minors still work: entries are added at the end of the header's lists,
// within their capacities below; fields are added behind the last of the header, or of an element (its stride says so). Zero in them must
// keep the earlier meaning. Every other change is a new major version.
inline constexpr uint64_t kHeaderCapacity = 24576;  // arrays begin behind
inline constexpr uint32_t kMostArrays = 64, kMostOptions = 96, kMostLosses = 96, kMostConsumers = 32, kMostResets = 32;

// ---- Directory -----------------------------------------------------------------------------------------------------------------
// X(identifier of the array, type of its elements)
#define PFS_FOR_EACH_ARRAY(X)                  \
  X(kClasses, ShmClass)                        \
  X(kThreads, ShmThread)                       \
  X(kThreadTexts, ShmThreadTexts)              \
  X(kThreadCells, ShmCell)                     \
  X(kAccounts, ShmPrincipal)                   \
  X(kAccountCells, ShmCell)                    \
  X(kUsers, ShmPrincipal)                      \
  X(kUserCells, ShmCell)                       \
  X(kHosts, ShmPrincipal)                      \
  X(kHostCells, ShmCell)                       \
  X(kGlobalCells, ShmCell)                     \
  X(kActors, ShmActor)                         \
  X(kObjectRules, ShmObjectRule)               \
  X(kInstances, ShmInstance)                   \
  X(kInstanceLists, ShmInstanceList)           \
  X(kHolds, ShmHold)                           \
  X(kHoldTotals, ShmHold)                      \
  X(kFiles, ShmFile)                           \
  X(kTables, ShmTable)                         \
  X(kIndexes, ShmIndex)                        \
  X(kTableHandles, ShmTableHandle)             \
  X(kMetadataLocks, ShmMetadataLock)           \
  X(kCells, ShmCell)                           \
  X(kStatementCells, ShmStatementCell)         \
  X(kStatementRests, ShmStatementRest)         \
  X(kHistograms, ShmHistogramPart)             \
  X(kHistogramBlocks, ShmHistogramBlock)       \
  X(kDigests, ShmDigest)                       \
  X(kDigestTexts, ShmDigestText)               \
  X(kPrograms, ShmStoredProgram)               \
  X(kPrepared, ShmPrepared)                    \
  X(kRetired, ShmRetired)                      \
  X(kNames, ShmNameGranule)                    \
  X(kSources, ShmSource)                       \
  X(kWaitChunks, ShmChunk)                     \
  X(kWaitRecords, ShmWaitRecord)               \
  X(kStageChunks, ShmChunk)                    \
  X(kStageRecords, ShmStageRecord)             \
  X(kStatementChunks, ShmChunk)                \
  X(kStatementRecords, ShmStatementRecord)     \
  X(kTransactionChunks, ShmChunk)              \
  X(kTransactionRecords, ShmTransactionRecord) \
  PFS_FOR_EACH_PROGRAM_ARRAY(X)

enum class ArrayId : uint32_t {
#define X(name, type) name,
  PFS_FOR_EACH_ARRAY(X)
#undef X
      kCount
};
inline constexpr uint32_t kArrayCount = static_cast<uint32_t>(ArrayId::kCount);

inline constexpr ArrayId kChunksOf[kEventKinds] = {ArrayId::kWaitChunks, ArrayId::kStageChunks, ArrayId::kStatementChunks,
                                                   ArrayId::kTransactionChunks};
inline constexpr ArrayId kRecordsOf[kEventKinds] = {ArrayId::kWaitRecords, ArrayId::kStageRecords, ArrayId::kStatementRecords,
                                                    ArrayId::kTransactionRecords};  // an element is a space: records.h

// ---- Cells -----------------------------------------------------------------------------------------------------------------------
// Holds the statistics of one object (a lane of it) as one thread has seen it, of one class in a thread's row, or what a class keeps: no
// other shape exists. See record/probe/cells.h.
// Threads: the thread in slot `owner` writes, any reads; kColdOwner: written under the cold lock.
struct alignas(64) ShmCell {
  HalfWord seq, gen;
  HalfWord owner;  // thread slot index; 0 = free
  HalfWord next;   // next cell of the same lane, or of the free list
  ShmStat stat;
  Word amount;        // bytes that were transferred; of an instance or a thread's row: events that were not sampled
  HalfWord instance;  // a mark of the live ShmInstance whose cell it is; kNoInstance; of other objects: see shm/unsampled.h
  HalfWord held;      // read locks on the object that were taken through this cell and not yet released
};
static_assert(sizeof(ShmCell) == 64);
inline constexpr uint32_t kColdOwner = ~uint32_t{0};
// The low half of the address, in the process that writes. Instances are 64 bytes apart.
inline uint32_t InstanceMark(const void* instance) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(instance)); }
inline constexpr uint32_t kNoInstance = 1;  // of a dead instance, or a free cell

// Holds the fields that do not fit into the line of a synchronization object. It has the object's index.
struct alignas(16) ShmInstanceList {
  ShmCellList cells;
  HalfWord version;  // counts the generations of the slot
  HalfWord home;     // names the free list whose thread destroys the object without a locked instruction; 0 or kTravels = none
};

// Lists cells of a dead object that belong to other, live threads. Those may be inside an update, so only they may move the numbers to
// the class, or a thread that finds their slot free. Until then the numbers count for the class from here.
struct alignas(64) ShmRetired {
  HalfWord class_index;  // 0 = free
  HalfWord object_gen;   // generation of the object's domain when it died: only cells of this generation count
  HalfWord class_gen;    // generation of the class's domain when it died: the numbers count only while the class still has it
  HalfWord next;         // free list, or the next one that waits for the same thread
  ShmCellChain lanes[kMostLanes];
};

// Numbers on their way to a class. A process that dies, or is stopped, meanwhile leaves here what a reader needs to count them once.
// Written under the cold lock, inside fold_seq of the class. See record/probe/cells.h.
struct alignas(64) ShmMove {
  ShmRetired object;  // lists of an object that dies: each counts from here unless the object or an entry of kRetired still shows it
  ShmCell before;     // the numbers that the cell of the class had before the move
  Word of;            // MoveOf; 0 = there is none
};
// Names a move: the cell of the class, and the cell or instance whose numbers it gets. They count for the class from there, and the class's
// are those in `before`, until the source's gen has kMovedGen.
inline constexpr uint32_t kMovesInstance = uint32_t{1} << 31, kMovedGen = uint32_t{1} << 31;
constexpr uint64_t MoveOf(uint32_t to, uint32_t from) { return uint64_t{to} << 32 | from; }

// ---- Header --------------------------------------------------------------------------------------------------------------------
inline constexpr uint32_t kTimedClassCount = 5;  // rows of setup_timers: idle, wait, stage, statement, transaction
enum class TimedClass : uint32_t { kIdle = 0, kWait, kStage, kStatement, kTransaction };
constexpr TimedClass TimedClassOf(Kind kind) { return static_cast<TimedClass>(static_cast<uint32_t>(kind) + 1); }

// Says which side holds the cold path; threads of the process exclude each other first. An outsider is another process that changes the
// setup or truncates (record/engine/cold_lock.h). Each of its sections adds kOutsiderSection: the process's copies of shared words may be
// out of date then. kLockFreePathClosed: no thread enters the lock-free path.
enum ColdHolder : uint32_t { kFree = 0, kInsider = 1, kOutsider = 2, kInsiderAlone = 3, kLockFreePathClosed = 2 };
inline constexpr uint32_t kColdHolderMask = 3, kOutsiderSection = 4;
constexpr ColdHolder HolderOf(uint32_t word) { return static_cast<ColdHolder>(word & kColdHolderMask); }

// Holds what the kernel had counted for a thread that runs another program (exec). Nanoseconds.
struct ShmProgramEnd {
  Word at;  // of CLOCK_MONOTONIC; 0 = it has not
  Word computed, runnable;
};

struct ShmHeader {
  // Identifies the writer, up to `parent`, where it is in layout 1.0, in every layout. Lists of processes and the removal of dead ones
  // read only this part. Written once, before the magic; read only after.
  uint64_t magic;  // last store of the creation: pairs with the acquire load in SegmentFile::CheckHeader
  uint32_t layout_major, layout_minor;
  uint32_t endian_mark, word_bytes;
  uint64_t segment_bytes;  // size of the address range: from the header to the end of the last array's capacity
  uint64_t pid;
  uint64_t pid_namespace;        // inode of /proc/self/ns/pid: pids of containers are not comparable
  uint64_t process_start_ticks;  // field 22 of /proc/PID/stat: distinguishes a reused pid
  uint8_t boot_id[40];
  uint64_t epoch_unix_micros;   // wall clock at the epoch of all timers
  uint8_t library_version[16];  // zero padded, like the next field
  uint8_t command[256];         // the beginning of the command line, as /proc/PID/cmdline: each argument ends with a zero byte
  uint64_t parent;              // process that started this one, at the start of pfs or at the fork; 0 if it has no number here

  // Readers interpret the rest with these fields. Written once, before the magic.
  TimerScale timers[kTimerCount];
  uint64_t options[kMostOptions];                         // int64_t values as they are in force
  char text_options[kTextOptionCount][kTextOptionBytes];  // zero padded
  uint64_t record_bytes[kEventKinds];                     // from one record to the next
  uint64_t long_text_bytes;                               // of a place for a statement's long texts; 0 = there are none
  uint64_t header_bytes;                                  // kHeaderCapacity
  uint64_t array_count;                                   // of `arrays` that the writer knows; the others are zero, and so empty
  Word file_bytes;                                        // length of the file: added extents begin here
  ShmArray arrays[kMostArrays];
  uint8_t status_reason[256];  // why pfs is not fully on; empty if it is
  uint8_t timer_reason[128];   // why CYCLE is not the default; empty if it is

  // Setup: written on the cold path by the thread that updates a setup table, read when flag words are computed.
  alignas(64) HalfWord consumers[kMostConsumers];  // 1 = ENABLED
  HalfWord timer_of[kTimedClassCount];             // TimerId + 1 of setup_timers

  // Every update of a cell reads this, and only TRUNCATE writes it: a line that stays in all caches has what a wait reads.
  alignas(64) ShmEpochs wait_epochs;
  HalfWord resets[kMostResets];
  HalfWord histogram_generation;         // of all parts of the histogram of all statements; in the line that they read anyway
  HalfWord digest_histogram_generation;  // of the histograms of all digests
  ShmEpochs other_epochs[kKindCount - 1];
  ShmEpochs& EpochsOf(Kind kind) { return kind == Kind::kWait ? wait_epochs : other_epochs[static_cast<uint32_t>(kind) - 1]; }
  const ShmEpochs& EpochsOf(Kind kind) const { return const_cast<ShmHeader*>(this)->EpochsOf(kind); }
  HalfWord remainder_cells;  // columns of row 0 of kGlobalCells that may be stored to and read
  HalfWord rebase_seq;       // odd while a TRUNCATE of memory statistics is running: their readers try again
  HalfWord move_seq;         // odd while numbers move between rows: readers of totals retry
  HalfWord hold_seq;         // odd while numbers of a dead object move from kHolds to kHoldTotals: readers of totals retry
  HalfWord cold_holder;      // ColdHolder, and a count of the outsiders' critical sections

  // Statements of all digests, and those without one: the first part.
  ShmHistogramPart histogram;

  // Many threads write these, rarely.
  alignas(64) Word losses[kMostLosses];
  Word next_thread_id;                        // number of THREAD_IDs assigned so far
  Word names_free[16], names_free_count[16];  // ShmNameGranule free lists by size: first << 32 | last; their names, [0]: all granules
  ShmDeclared program;
  Word trace_status[32];      // the last error of the trace, zero padded; empty = none
  HalfWord trace_status_seq;  // protects trace_status; cell.h
  ShmGovernor governor;
  Word computed;                  // by all threads until the end of the process: nanoseconds; 0 = it has not ended, or it was killed
  Word loading, computed_before;  // nanoseconds from the program's begin (exec) until pfs was there, and computed by then
  ShmProgramEnd became;           // when the process became another program
  ShmMove move;
};

// ---- Instruments ---------------------------------------------------------------------------------------------------------------

inline constexpr uint64_t kOwnerHold = PFS_OWNER_HOLD_, kOwnerThreadMask = kOwnerHold - 1;  // owner word of pfs_instance: abi.h

// A synchronization object: one line with all that its probe touches. The exclusive holder of the object writes the cell. All other
// events (shared locks, failed tries, waits for conditions) go to the cells of its list in kInstanceLists, which has the same index.
// pfs_instance of abi.h is the same bytes.
struct alignas(64) ShmInstance {
  HalfWord flags;
  HalfWord class_index;  // 0 = free slot; a cached slot (record/engine/free_lists.h), which has kFlagDead, keeps that of its objects
  HalfWord seq, gen;
  ShmStat stat;
  Word owner;
  Word identity;  // OBJECT_INSTANCE_BEGIN; link of the free list while free
};
static_assert(sizeof(ShmInstance) == sizeof(pfs_instance) && offsetof(ShmInstance, flags) == offsetof(pfs_instance, flags));
static_assert(offsetof(ShmInstance, owner) == offsetof(pfs_instance, owner) &&
              offsetof(ShmInstance, identity) == offsetof(pfs_instance, identity));

// Holds how long an object of kInstances was held exclusively, which has the same index; or, in kHoldTotals, what a class keeps of dead
// objects. It has memory from the first hold on that is measured (record/family/holds.h).
// Threads: the holder of the object writes, before it releases the object. In kHoldTotals: written under the cold lock.
struct alignas(64) ShmHold {
  HalfWord seq, gen;
  Word since;        // counter of the time base when the present hold began
  ShmStat stat;      // holds that have ended
  Word longest;      // the longest hold: THREAD_ID << 16 | index into kSources of its begin
  HalfWord what;     // class of the object | index into kSources of the begin of the present hold << 16
  HalfWord version;  // of the object: numbers of another version are those of a dead object, and of its class
};
static_assert(sizeof(ShmHold) == 64);

// A file, known by name from its first successful open until it is deleted; or a socket, from its creation until it is closed.
// Threads: fields change under the cold lock, except flags (setup), open_count (atomic add) and thread_id. A thread makes a file of a slot
// that is ready on the lock-free path.
struct alignas(64) ShmFile {
  HalfWord flags;
  std::atomic<uint16_t> class_index;  // 0 = free slot
  std::atomic<uint16_t> state;        // kFileFree, kFileLive, kFileDead, kFileReady, and the flag bits below
  ShmCellList lanes[kFileLanes];      // kMiscLane, kReadLane, kWriteLane
  HalfWord open_count;                // of a socket: counts its descriptor, and a close that has not ended
  HalfWord hash;                      // of the name; of a socket its descriptor
  Word name;           // first granule of its name | that granule's version << 32, in one word: it may change. A socket's is "IP:PORT"
  HalfWord hash_next;  // next file of the same bucket; link of the free list while free
  HalfWord version;    // counts the generations of the slot
  Word thread_id;      // of a socket: the thread that it belongs to
};
static_assert(sizeof(ShmFile) == 64);
// kFileDead: the file is deleted, but open descriptors still name it; it is not shown, and is in no list.
// kFileReady: a thread will make its next file of the slot, which has cells of that thread. It is not shown.
inline constexpr uint16_t kFileFree = 0, kFileLive = 1, kFileDead = 2, kFileReady = 3, kFileStateMask = 3;
inline constexpr uint16_t kFileTemporary = 4;   // disappears at close, as every socket does
inline constexpr uint16_t kSocketIdle = 8;      // STATE of socket_instances
inline constexpr uint16_t kSocketIsLocal = 16;  // AF_UNIX: the name is a path, there is no IP and no port

inline constexpr uint32_t kObjectNameWidth = 64;  // of schemas, tables, indexes, columns: longer names are cut (semantics.md L13)

// Type of an object of the program: OBJECT_TYPE of tables, of setup_objects (the first five) and of metadata locks.
enum class ObjectType : uint8_t {
  kNone = 0,
  kEvent,
  kFunction,
  kProcedure,
  kTable,
  kTrigger,
  kTemporaryTable,
  kGlobal,
  kSchema,
  kCommit,
  kUserLevelLock,
  kTablespace,
  kLockingService,
  kSrid,
  kAclCache,
  kColumnStatistics,
  kBackupLock,
  kResourceGroups,
  kForeignKey,
  kCheckConstraint
};
inline constexpr std::string_view kObjectTypeNames[] = {"",
                                                        "EVENT",
                                                        "FUNCTION",
                                                        "PROCEDURE",
                                                        "TABLE",
                                                        "TRIGGER",
                                                        "TEMPORARY TABLE",
                                                        "GLOBAL",
                                                        "SCHEMA",
                                                        "COMMIT",
                                                        "USER LEVEL LOCK",
                                                        "TABLESPACE",
                                                        "LOCKING SERVICE",
                                                        "SRID",
                                                        "ACL CACHE",
                                                        "COLUMN STATISTICS",
                                                        "BACKUP LOCK",
                                                        "RESOURCE_GROUPS",
                                                        "FOREIGN KEY",
                                                        "CHECK CONSTRAINT"};

// A table of the program, known by (type, schema, name) from its first open until it is dropped. The name is "SCHEMA\0NAME".
// Threads: fields change under the cold lock. A table that was dropped while it is open has type 0 and kFlagDead, and keeps its slot.
struct alignas(64) ShmTable {
  HalfWord io_flags, lock_flags;  // those of its two instruments as far as setup_objects allows; pfs_table of abi.h points here
  HalfWord type;                  // ObjectType; 0 = free slot, or dropped
  HalfWord version;               // counts the generations of the slot
  HalfWord bits;                  // kTableEnabled ...
  HalfWord name, name_version;    // as in ShmFile
  HalfWord hash, hash_next;
  HalfWord handles;  // number of open ones
  HalfWord indexes;  // first of its list in kIndexes
  ShmCellList lock_lanes[kTableLockLanes];
};
static_assert(sizeof(ShmTable) == 128 && offsetof(ShmTable, lock_flags) == sizeof(uint32_t));
// Bits of `bits`: the settings of setup_objects, and whether statistics of its locks could be allocated.
inline constexpr uint32_t kTableEnabled = 1, kTableTimed = 2, kTableHasLocks = 4;

// An index of a table, or the rows that the program reaches through no index. It exists as long as the table.
struct alignas(64) ShmIndex {
  HalfWord table;                    // 0 = free slot, or its table was dropped
  HalfWord next;                     // next index of the table; free list
  HalfWord version;                  // counts the generations of the slot
  HalfWord name, name_version;       // 0 = no index
  ShmCellList lanes[kTableIoLanes];  // kFetchLane ...
};

// An open table: a row of table_handles. The table's name is the handle's too, even after the table has been dropped.
// Threads: created and destroyed under the cold lock; between that, the thread that uses the table writes.
struct alignas(64) ShmTableHandle {
  HalfWord table;                        // 0 = free slot
  HalfWord seq;                          // covers all fields but `locks`; cell.h
  Word identity;                         // OBJECT_INSTANCE_BEGIN; link of the free list while free
  Word owner_thread_id, owner_event_id;  // 0 = cached, not in use
  std::atomic<uint16_t> locks[2];        // lane + 1 of the internal lock and of the external one; 0 = unlocked
  HalfWord type;                         // ObjectType
  HalfWord name, name_version;
};

// A metadata lock, from request to release. The name is "SCHEMA\0NAME\0COLUMN".
// Threads: created and destroyed under the cold lock; any thread changes `state`, atomically.
struct alignas(64) ShmMetadataLock {
  HalfWord flags;   // of the instrument
  HalfWord seq;     // covers all fields but `flags` and `state`; cell.h
  HalfWord state;   // ObjectType | lock type << 8 | duration << 16 | status << 24; 0 = free slot
  HalfWord source;  // index into kSources
  Word identity;    // OBJECT_INSTANCE_BEGIN; link of the free list while free
  Word owner_thread_id, owner_event_id;
  HalfWord name, name_version;
};

// The longest wait for a synchronization object of a class: units of kLongWait << 32 | low half of the generation of the objects << 16 |
// index into kSources. A new maximum of the class is one of its object, too, and so never on the fast path (record/probe/fast_path.h).
constexpr uint64_t LengthOfLongest(uint64_t wait_ps) { return std::min<uint64_t>(wait_ps / kLongWait, ~uint32_t{0}); }
constexpr uint64_t LongestWait(uint64_t wait_ps, uint32_t gen, uint64_t source) {
  return LengthOfLongest(wait_ps) << 32 | uint64_t{gen & 0xffff} << 16 | (source & 0xffff);
}

// An instrument, or a registered error or status variable. It is constant after `ready` is set, except setup words and statistics.
struct alignas(64) ShmClass {
  HalfWord ready;       // release store by registration
  HalfWord flags;       // computed from setup: mutexes point to this word, other objects have copies, events without an object use it
  uint32_t index;       // its own
  HalfWord controlled;  // FLAGS of setup_instruments
  HalfWord enabled, timed,
      trace_enabled;  // setup_instruments (`timed`: Timing); of a thread instrument `timed` is HISTORY of setup_threads
  uint32_t family;
  uint32_t key;         // number within the family
  uint32_t properties;  // bits of kPropertyNames
  uint32_t volatility;
  uint32_t name_bytes;
  uint8_t name[128];
  uint32_t documentation_bytes;
  uint8_t documentation[260];
  Word longest_wait;               // LongestWait(). Threads: each that ends such a wait, by compare and exchange
  HalfWord fold_seq;               // odd while statistics of a dying object move here; readers of totals retry
  HalfWord dead;                   // first of its cells, one a lane, that hold the statistics of dead objects; their owner is kColdOwner
  ShmCellChain lanes[kMostLanes];  // events without an object, by thread
  int32_t error_number;            // of a registered error, whose name is `name`
  uint8_t sqlstate[8];             // 5 bytes
  HalfWord step;                   // Step: what the ceiling leaves of its settings. Changed under the cold lock
};
static_assert(sizeof(ShmClass) == 512);

inline constexpr uint32_t kPropertySingleton = 1, kPropertyProgress = 2, kPropertyUser = 4, kPropertyGlobal = 8, kPropertyMutable = 16,
                          kPropertyControlled = 32;
// Settings that it registered with. They are not shown.
inline constexpr uint32_t kPropertyDisabled = 1u << 16, kPropertyUntimed = 1u << 17;
inline constexpr uint32_t kPropertyDialectShift = 24;  // as kFlagDialectShift
inline constexpr const char* kPropertyNames[] = {"singleton", "progress", "user", "global_statistics", "mutable", "controlled_by_default"};

// ---- Accounts, users, hosts ----------------------------------------------------------------------------------------------------

// An account, a user or a host that threads work for. Its texts are constant during its lifetime. Its row of cells has its own index.
// Threads: changed under the cold lock.
struct alignas(64) ShmPrincipal {
  HalfWord is_live;          // 0 = free slot; last store of the creation, first store of the destruction
  HalfWord version;          // counts the generations of the slot
  HalfWord fold_seq;         // odd while numbers move to it or away; readers of its sums retry
  HalfWord cells;            // columns of its row that may be read
  HalfWord user, host;       // parents of an account; 0 = table full
  HalfWord hash, hash_next;  // as in ShmFile
  Word connections;          // CURRENT_CONNECTIONS, and TOTAL_CONNECTIONS in units of kOneTotalConnection: one word, so always consistent
  Word max_controlled_memory, max_total_memory;  // maximum of the sessions that worked for it and have left
  Word user_name[4];                             // empty = NULL, as in the rows of threads without an account
  Word host_name[32];
};

inline constexpr uint64_t kOneTotalConnection = uint64_t{1} << 20, kCurrentConnectionsMask = kOneTotalConnection - 1;

// A row of setup_actors. Threads: changed under the cold lock.
struct alignas(64) ShmActor {
  HalfWord is_live;  // 0 = free slot
  HalfWord seq;      // covers all fields below; cell.h
  HalfWord enabled, history;
  HalfWord next;  // free list
  HalfWord traced;
  Word host[32], user[4], role[4];
};

// A row of setup_objects. Threads: changed under the cold lock.
struct alignas(64) ShmObjectRule {
  HalfWord type;  // ObjectType; 0 = free slot
  HalfWord seq;   // covers all fields below; cell.h
  HalfWord enabled, timed;
  HalfWord next;            // next rule of the same bucket; link of the free list while free
  Word schema[8], name[8];  // zero padded
};

// ---- Texts ---------------------------------------------------------------------------------------------------------------------

// Begins a name. A name of 1..512 bytes takes as many granules as it needs; the first begins with this header. Constant while live.
struct ShmNameGranule {
  HalfWord version;  // counts the generations of the granule; a record that names an older one has lost its name
  uint32_t next;     // free list
  HalfWord bytes;    // length of the text, which starts at `text` and runs on into the next granules
  uint32_t granules;
  uint8_t text[48];
};
static_assert(sizeof(ShmNameGranule) == 64);
inline constexpr uint32_t kMaxObjectName = 512;
inline constexpr uint64_t kWaitingGranulesOfRow = 4;  // of freed names, for each row of history_long that may still show one

// Holds "file.c:123", interned once per call site.
struct ShmSource {
  HalfWord bytes;  // 0 = not written yet; release store after the text
  uint8_t text[64];
  uint32_t hash;
};

// Calls of one place with one result: a row of call_sites. See record/probe/call_sites.h.
// Threads: `what` and `name` are constant once `what` is stored; any thread adds to the numbers, atomically.
struct alignas(64) ShmCallSite {
  Word what;  // CallSiteOf(); 0 = not written yet
  Word count, sum_ps;
  char name[40];  // of the file of the first such call, without its folder; zero padded
};
static_assert(sizeof(ShmCallSite) == 64);
inline constexpr uint64_t kCallSiteSlots = 1024;  // one is never used
inline constexpr int kOtherError = 255;           // what does not fit, and 0 of a call that failed
// `error`: the call's errno; 0: it found nothing.
constexpr uint64_t CallSiteOf(uint32_t class_index, Operation operation, int error, uint32_t source) {
  const auto shown = error >= 0 && error < kOtherError ? static_cast<uint64_t>(error) : kOtherError;
  return class_index | static_cast<uint64_t>(operation) << 16 | shown << 24 | uint64_t{source} << 32;
}
static_assert(sizeof(ShmHeader) <= kHeaderCapacity && kArrayCount <= kMostArrays && kOptionCount <= kMostOptions &&
              static_cast<uint32_t>(Loss::kCount) <= kMostLosses && kConsumerCount <= kMostConsumers && kResetWordCount <= kMostResets);
static_assert(std::is_standard_layout_v<ShmHeader> && std::is_standard_layout_v<ShmClass> && std::is_standard_layout_v<ShmThread>);

}  // namespace perfschema
