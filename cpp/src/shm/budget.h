// shm/budget.h: who shares the memory that a segment may take.
//
// A segment takes memory for what the program does: a server with many paths has many digests, and one that opens many files has many
// names. Nobody has asked for that, so it has a limit: an eighth of the file system, and 16 MiB together with what dead processes of this
// user have left (max_file_system_part, max_segment_megabytes). Arrays whose size an option sets are the user's will: they are neither
// limited nor counted.
//
// Each share of the arrays has some parts of the limit for itself, and the rest is for all. So an array that grows without end leaves
// the others at least their parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shm/layout.h"

namespace perfschema {

enum class Share : uint32_t { kThreads = 0, kClasses, kLocks, kFiles, kTables, kNames, kDigests, kEvents, kCount };
inline constexpr uint32_t kShares = static_cast<uint32_t>(Share::kCount);
inline constexpr uint64_t kPartsOfLimit = 32;
inline constexpr uint64_t kOwnParts[kShares] = {2, 1, 2, 2, 1, 3, 5, 5};  // 11 are for all
// Of the parts of files: sockets, which are in the same array, have them for themselves. In the same way instruments have cells, which
// they need to be registered.
inline constexpr uint64_t kPartsOfSockets = 1, kPartsOfClassCells = 1;
// Of the parts of digests: no new digest takes them, so that statements still find a cell, those of the row for all others, too.
inline constexpr uint64_t kPartsOfStatementCells = 2;
// Of the parts of names: names and facts leave them to the error log, whose oldest events go first.
inline constexpr uint64_t kPartsOfLog = 1;
// Of the parts of names: freed names that wait for their events to leave the histories leave them to new ones.
inline constexpr uint64_t kPartsOfNewNames = 1;
// History_long of a kind of events gets no more: it has fewer rows then.
inline constexpr uint64_t kPartsOfHistory = 3;

struct ArrayBudget {
  Share share;
  uint32_t count;
  OptionId sizes[10];  // options that set the size of the array
  template <typename... Ids>
  constexpr explicit ArrayBudget(Share of, Ids... ids) : share(of), count(sizeof...(Ids)), sizes{ids...} {}
};

constexpr ArrayBudget BudgetOf(ArrayId id) {
  using O = OptionId;
  switch (id) {
    case ArrayId::kThreads:
    case ArrayId::kThreadTexts:
    case ArrayId::kThreadCells:
    case ArrayId::kFreeLists:
    case ArrayId::kGlobalCells:
      return ArrayBudget(Share::kThreads, O::max_thread_instances);
    case ArrayId::kClasses:
    case ArrayId::kHoldTotals:
      return ArrayBudget(Share::kClasses, O::max_mutex_classes, O::max_rwlock_classes, O::max_cond_classes, O::max_file_classes,
                         O::max_socket_classes, O::max_thread_classes, O::max_stage_classes, O::max_statement_classes,
                         O::max_memory_classes, O::error_size);
    case ArrayId::kInstances:
    case ArrayId::kInstanceLists:
    case ArrayId::kHolds:
      return ArrayBudget(Share::kLocks, O::max_mutex_instances, O::max_rwlock_instances, O::max_cond_instances);
    case ArrayId::kCells:
    case ArrayId::kRetired:
      return ArrayBudget(Share::kLocks, O::max_object_cells, O::max_mutex_instances, O::max_rwlock_instances, O::max_cond_instances,
                         O::max_file_instances, O::max_socket_instances, O::max_table_instances, O::max_index_stat);
    case ArrayId::kFiles:
      return ArrayBudget(Share::kFiles, O::max_file_instances, O::max_socket_instances);
    case ArrayId::kTables:
    case ArrayId::kIndexes:
      return ArrayBudget(Share::kTables, O::max_table_instances, O::max_index_stat);
    case ArrayId::kTableHandles:
      return ArrayBudget(Share::kTables, O::max_table_handles);
    case ArrayId::kMetadataLocks:
      return ArrayBudget(Share::kTables, O::max_metadata_locks);
    case ArrayId::kStatementCells:
    case ArrayId::kStatementRests:
      return ArrayBudget(Share::kDigests, O::max_object_cells, O::digests_size, O::max_prepared_statements_instances,
                         O::max_program_instances);
    case ArrayId::kHistogramBlocks:
    case ArrayId::kDigests:
      return ArrayBudget(Share::kDigests, O::digests_size);
    case ArrayId::kDigestTexts:
      return ArrayBudget(Share::kDigests, O::digests_size, O::max_digest_length, O::max_sql_text_length);
    case ArrayId::kHistograms:
      return ArrayBudget(Share::kDigests);
    case ArrayId::kPrograms:
      return ArrayBudget(Share::kDigests, O::max_program_instances);
    case ArrayId::kPrepared:
      return ArrayBudget(Share::kDigests, O::max_prepared_statements_instances, O::max_sql_text_length);
    case ArrayId::kWaitChunks:
    case ArrayId::kWaitRecords:
      return ArrayBudget(Share::kEvents, O::events_waits_history_size, O::events_waits_history_long_size);
    case ArrayId::kStageChunks:
    case ArrayId::kStageRecords:
      return ArrayBudget(Share::kEvents, O::events_stages_history_size, O::events_stages_history_long_size);
    case ArrayId::kStatementChunks:
    case ArrayId::kStatementRecords:
      return ArrayBudget(Share::kEvents, O::events_statements_history_size, O::events_statements_history_long_size, O::max_sql_text_length,
                         O::max_digest_length, O::max_statement_stack);
    case ArrayId::kTransactionChunks:
    case ArrayId::kTransactionRecords:
      return ArrayBudget(Share::kEvents, O::events_transactions_history_size, O::events_transactions_history_long_size);
    case ArrayId::kAccounts:
    case ArrayId::kAccountCells:
      return ArrayBudget(Share::kClasses, O::accounts_size);
    case ArrayId::kUsers:
    case ArrayId::kUserCells:
      return ArrayBudget(Share::kClasses, O::users_size);
    case ArrayId::kHosts:
    case ArrayId::kHostCells:
      return ArrayBudget(Share::kClasses, O::hosts_size);
    case ArrayId::kSources:
      return ArrayBudget(Share::kNames, O::max_source_locations);
    case ArrayId::kFacts:
    case ArrayId::kFactBlocks:
      return ArrayBudget(Share::kNames, O::max_program_rows);
    case ArrayId::kNames:
      return ArrayBudget(Share::kNames, O::max_file_instances, O::max_socket_instances, O::max_table_instances, O::max_index_stat,
                         O::max_metadata_locks, O::max_program_instances);
    default:
      return ArrayBudget(Share::kNames);
  }
}

// Returns whether the user has set the size of an array.
inline bool IsChosen(const ShmHeader& header, const ArrayBudget& budget) {
  return std::any_of(budget.sizes, budget.sizes + budget.count,
                     [&](OptionId option) { return header.program.option_is_set[static_cast<uint32_t>(option)] != 0; });
}

}  // namespace perfschema
