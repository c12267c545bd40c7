// shm/layout_program.h: rows that the program declares: variables, attributes, meters, its log ... A part of layout.h, whose rules apply
// here.
#pragma once

#include "shm/cell.h"
#include "shm/free_lists.h"
#include "shm/options.h"
#include "shm/roles.h"
#include "shm/rules.h"

namespace perfschema {

// ---- Facts: rows that the program declares --------------------------------------------------------------------------------------

// One line per kind. The first `key_texts` texts of a fact identify it among those of the same kind and owner. X(identifier, key texts,
// ignores case, belongs to a thread, may be declared although pfs is off)
#define PFS_FOR_EACH_FACT_KIND(X)         \
  X(kVariable, 1, true, false, true)      \
  X(kAttribute, 2, true, false, true)     \
  X(kThreadVariable, 1, true, true, true) \
  X(kUserVariable, 1, false, true, false) \
  X(kConnectAttrs, 0, false, true, false) \
  X(kMeter, 1, false, false, false)       \
  X(kMetric, 1, false, false, false)      \
  X(kLogger, 1, false, false, false)      \
  X(kTask, 1, false, false, false)        \
  X(kFunction, 1, false, false, false)    \
  X(kHostSeen, 1, false, false, true)     \
  X(kFailedLogin, 1, false, false, false) \
  X(kAccountLock, 2, false, false, true)

enum class FactKind : uint32_t {
  kNone = 0,
#define X(name, ...) name,
  PFS_FOR_EACH_FACT_KIND(X)
#undef X
      kCount
};
struct FactKindTraits {
  uint8_t key_texts;
  bool folds_case, is_of_thread, is_kept_when_off;
};
inline constexpr FactKindTraits kFactKinds[] = {{0, false, false, false},
#define X(name, ...) {__VA_ARGS__},
                                                PFS_FOR_EACH_FACT_KIND(X)
#undef X
};
constexpr const FactKindTraits& TraitsOf(FactKind kind) { return kFactKinds[static_cast<uint32_t>(kind)]; }

// A fact: numbers and texts, encoded (shm/fact.h) into a chain of blocks. A new value is written in place, inside `seq`. Blocks go
// back to the free list inside it, too. So a reader that followed a chain which now belongs to another fact sees that `seq` has changed.
// Threads: changed under the cold lock, except `setting`: any thread changes it, atomically.
struct alignas(64) ShmFact {
  HalfWord kind;             // FactKind; 0 = free slot
  HalfWord seq;              // covers all fields but `setting`; cell.h
  HalfWord block;            // first of its chain; link of the free list while free
  HalfWord bytes;            // in the chain
  Word owner;                // THREAD_ID whose thread owns it and ends it; 0 = the process
  Word setting;              // value that is read or changed without a lock: the level of a logger, the frequency of a meter ...
  HalfWord hash, hash_next;  // as in ShmFile
  HalfWord owner_next;       // next fact of threads of the same bucket
};

struct ShmFactBlock {
  HalfWord next;  // in the chain, or in the free list
  HalfWord unused;
  Word words[15];
};
static_assert(sizeof(ShmFact) == 64 && sizeof(ShmFactBlock) == 128);
inline constexpr uint64_t kFactBlockBytes = sizeof(ShmFactBlock::words);
inline constexpr uint64_t kBlocksPerFact = 8;                // average per fact that the capacity allows for
inline constexpr uint64_t kMostFactBytes = 2 * 1024 * 1024;  // more than the limit of any kind

// ---- The error log -------------------------------------------------------------------------------------------------------------

// A ring buffer of units. An event takes as many as it needs, one behind the other. Places count from the start of the process and never
// go down. Unit 1 + place % (used - 1) holds what was written at `place`, if begin <= place < end: the ring grows until it wraps, to
// kLogUnits if there is memory. A writer moves `begin` before it overwrites units, and `end` when all is stored: a reader's copy is whole
// if `begin` has not passed it since. First unit: place, LOGGED, THREAD_ID, sizes (see record/declared/log.h), and then the texts.
struct alignas(64) ShmLogUnit {
  Word words[8];
};
inline constexpr uint64_t kLogUnits = 5 * 1024 * 1024 / sizeof(ShmLogUnit);

// ---- Their part of the header --------------------------------------------------------------------------------------------------

struct ShmDeclared {
  alignas(64) Word log_begin, log_end;  // places
  Word log_written, log_expired;        // events
  Word log_latest;                      // LOGGED of the youngest event, 0 = none
  Word longest_attrs;                   // bytes of the longest list of connection attributes, stored or not
  uint8_t option_is_set[96];            // as many as ShmHeader::options; 1 = PFS_OPTIONS or pfs_init() named it; constant
  Word last_rule;                       // ordinal of the youngest rule of instruments
};

#define PFS_FOR_EACH_PROGRAM_ARRAY(X)    \
  X(kFacts, ShmFact)                     \
  X(kFactBlocks, ShmFactBlock)           \
  X(kErrorLog, ShmLogUnit)               \
  X(kFreeLists, ShmFreeLists)            \
  X(kInstrumentRules, ShmInstrumentRule) \
  X(kCallSites, ShmCallSite)             \
  X(kRoles, ShmRole)

#define PFS_FOR_EACH_PROGRAM_LOSS(X)                                \
  X(kConnectAttrs, "Performance_schema_session_connect_attrs_lost") \
  X(kLogEvents, "Performance_schema_error_log_lost")                \
  X(kLoggers, "Performance_schema_logger_lost")                     \
  X(kMeters, "Performance_schema_meter_lost")                       \
  X(kMetrics, "Performance_schema_metric_lost")                     \
  X(kProgramRows, "Performance_schema_program_rows_lost")

}  // namespace perfschema
