#include "shm/plan.h"

#include <algorithm>

#include "shm/shapes.h"

namespace perfschema {
namespace {

constexpr uint64_t kLeastExtent = 256 * 1024;  // many arrays never need a second one
// A small array has one extent. All of them lie side by side, in the file as in the addresses, so that one mapping holds them: fork()
// copies each mapping.
constexpr uint64_t kMostOfSmallArray = 1280 * 1024, kMostOfSmallArrays = 8 << 20;

constexpr uint64_t kElementBytes[kArrayCount] = {
#define X(name, type) sizeof(type),
    PFS_FOR_EACH_ARRAY(X)
#undef X
};

// Returns the bytes of an element. An element of an array of records is the space of a chunk.
uint64_t Stride(ArrayId id, const Options& options) {
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    if (kRecordsOf[kind] != id) continue;
    const auto of_kind = static_cast<Kind>(kind);
    return SpaceBytes(of_kind, RecordBytesFor(of_kind, options), of_kind == Kind::kStatement ? LongTextBytesFor(options) : 0);
  }
  const uint64_t sql = TextCapacity(static_cast<uint64_t>(options.Get(OptionId::max_sql_text_length)));
  const uint64_t behind = id == ArrayId::kPrepared ? sql : 0;
  return kElementBytes[static_cast<uint32_t>(id)] + RoundUp(behind, 64);  // elements with texts behind them are whole lines
}

// Returns the instruments that there may be.
uint64_t MostClasses(const Options& options) {
  const auto get = [&](OptionId option) { return static_cast<uint64_t>(options.Get(option)); };
  uint64_t classes = 1;  // plus the single instruments
  for (const FamilyTraits& traits : kFamilies) classes += traits.is_single ? ColumnsOf(traits.kind) : 0;
  classes += get(OptionId::max_stage_classes) + get(OptionId::max_statement_classes) * ColumnsOf(Kind::kStatement) +
             get(OptionId::max_memory_classes) * ColumnsOf(Kind::kMemory);
  classes += std::min(get(OptionId::error_size), kMostErrors) + get(OptionId::max_status_variables);
  for (const OptionId option : {OptionId::max_mutex_classes, OptionId::max_rwlock_classes, OptionId::max_cond_classes,
                                OptionId::max_file_classes, OptionId::max_socket_classes, OptionId::max_thread_classes}) {
    classes += get(option);
  }
  return classes;
}

// Returns the small chunks of a kind of event: one for each thread, rounded up to whole spaces, and those with the rows of short threads.
uint64_t SmallChunks(Kind kind, const Options& options) {
  if (SmallChunk(kind) == 0) return 0;
  const auto rows = static_cast<uint64_t>(options.Get(kPools[static_cast<uint32_t>(kind)].history_long_size));
  const uint64_t threads = static_cast<uint64_t>(options.Get(OptionId::max_thread_instances)) + 1;
  return threads + SmallPerSpace(kind) + (KeepsShortThreads(kind) ? ChunksInPool(rows) : 0);
}

// Returns the chunks of a kind of event besides the small ones.
uint64_t Chunks(Kind kind, const Options& options) {
  const auto get = [&](OptionId option) { return static_cast<uint64_t>(options.Get(option)); };
  const PoolTraits& pool = kPools[static_cast<uint32_t>(kind)];
  const uint64_t of_thread =
      ChunksOfThread(ChunksHeldByThread(kind, get(pool.history_size))) + MostOpen(kind, get(OptionId::max_statement_stack));
  return ChunksInPool(MostChunksFor(kind, RowsOfTrace(kind, options))) + (get(OptionId::max_thread_instances) + 1) * of_thread + 1;
}

// Returns the elements of each array for these options. Index 0 of every array stays unused, so that zero bytes mean "no reference".
uint64_t Capacity(ArrayId id, uint64_t classes, const Options& options) {
  const auto get = [&](OptionId option) { return static_cast<uint64_t>(options.Get(option)); };
  const uint64_t threads = get(OptionId::max_thread_instances) + 1;
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    const uint64_t chunks = Chunks(static_cast<Kind>(kind), options), small = SmallChunks(static_cast<Kind>(kind), options);
    if (id == kChunksOf[kind]) return chunks + small;
    if (id == kRecordsOf[kind]) return chunks + (small == 0 ? 0 : ChunksFor(small, SmallPerSpace(static_cast<Kind>(kind))));
  }
  const uint64_t instances = get(OptionId::max_mutex_instances) + get(OptionId::max_rwlock_instances) + get(OptionId::max_cond_instances);
  const uint64_t columns = RoundUp(classes, kPageBytes / sizeof(ShmCell));
  const auto with_zero = [&](OptionId option) { return get(option) + 1; };
  switch (id) {
    case ArrayId::kClasses:
    case ArrayId::kHoldTotals:
      return classes;
    case ArrayId::kThreads:
    case ArrayId::kThreadTexts:
    case ArrayId::kFreeLists:
      return threads;
    case ArrayId::kThreadCells:
      return threads * columns;
    case ArrayId::kAccounts:
      return with_zero(OptionId::accounts_size);
    case ArrayId::kAccountCells:
      return with_zero(OptionId::accounts_size) * columns;
    case ArrayId::kUsers:
      return with_zero(OptionId::users_size);
    case ArrayId::kUserCells:
      return with_zero(OptionId::users_size) * columns;
    case ArrayId::kHosts:
      return with_zero(OptionId::hosts_size);
    case ArrayId::kHostCells:
      return with_zero(OptionId::hosts_size) * columns;
    case ArrayId::kGlobalCells:
      return threads * columns;  // row 0: numbers that no host keeps; others: threads without an account
    case ArrayId::kActors:
      return with_zero(OptionId::setup_actors_size);
    case ArrayId::kObjectRules:
      return with_zero(OptionId::setup_objects_size);
    case ArrayId::kInstances:
    case ArrayId::kInstanceLists:
    case ArrayId::kHolds:
      return instances + 1;
    case ArrayId::kFiles:
      return get(OptionId::max_file_instances) + get(OptionId::max_socket_instances) + 1;
    case ArrayId::kTables:
      return with_zero(OptionId::max_table_instances);
    case ArrayId::kIndexes:
      return with_zero(OptionId::max_index_stat);
    case ArrayId::kTableHandles:
      return with_zero(OptionId::max_table_handles);
    case ArrayId::kMetadataLocks:
      return with_zero(OptionId::max_metadata_locks);
    case ArrayId::kCells:
      return get(OptionId::max_object_cells) + classes * kMostLanes + 1;  // plus those of the classes themselves
    case ArrayId::kStatementCells:
    case ArrayId::kStatementRests:
      return get(OptionId::max_object_cells) / 4 + 1;
    case ArrayId::kHistograms:
      return kHistogramParts;  // one is in the header: index 0 stays unused here, too
    case ArrayId::kHistogramBlocks:
      return std::min<uint64_t>(with_zero(OptionId::digests_size) * kBucketGroups, UINT32_MAX);
    case ArrayId::kDigests:
      return with_zero(OptionId::digests_size);
    case ArrayId::kDigestTexts: {
      // Twice the longest texts: a sample that grows leaves its place behind.
      const uint64_t sample = TextCapacity(get(OptionId::max_sql_text_length)), tokens = TextCapacity(get(OptionId::max_digest_length));
      const uint64_t parts = (2 * sample + tokens + kDigestSchemaBytes) / sizeof(ShmDigestText) + 3;
      return std::min<uint64_t>(with_zero(OptionId::digests_size) * parts, UINT32_MAX);
    }
    case ArrayId::kPrograms:
      return with_zero(OptionId::max_program_instances);
    case ArrayId::kPrepared:
      return with_zero(OptionId::max_prepared_statements_instances);
    case ArrayId::kRetired:
      return 16384;
    case ArrayId::kNames:
      return get(OptionId::max_file_instances) * 4 + get(OptionId::max_socket_instances) * 2 +
             (get(OptionId::max_table_instances) + get(OptionId::max_index_stat)) * 3 + get(OptionId::max_metadata_locks) * 4 +
             get(OptionId::max_program_instances) * 3 + get(OptionId::events_waits_history_long_size) * kWaitingGranulesOfRow + 64;
    case ArrayId::kSources:
      return get(OptionId::max_source_locations) + 1;
    case ArrayId::kFacts:
      return with_zero(OptionId::max_program_rows);
    case ArrayId::kFactBlocks:
      return get(OptionId::max_program_rows) * kBlocksPerFact + 1;
    case ArrayId::kErrorLog:
      return kLogUnits + 1;
    case ArrayId::kInstrumentRules:
      return kMostInstrumentRules + 1;
    case ArrayId::kCallSites:
      return kCallSiteSlots;
    case ArrayId::kRoles:
      return kMostRoles + 1;
    default:
      break;
  }
  return 0;
}

// Returns the first extent of an array: some of the rows of threads and principals, if these are long.
uint64_t FirstExtent(ArrayId id, uint64_t whole, uint64_t row_bytes) {
  switch (id) {
    case ArrayId::kThreadCells:
    case ArrayId::kGlobalCells:
    case ArrayId::kAccountCells:
    case ArrayId::kUserCells:
    case ArrayId::kHostCells:
      return std::min(whole, std::max(kLeastExtent, RoundToPages(2 * row_bytes)));
    default:
      return std::min(whole, kLeastExtent);
  }
}

}  // namespace

uint64_t RowsOfTrace(Kind kind, const Options& options) {
  const OptionId id = kPools[static_cast<uint32_t>(kind)].history_long_size;
  const bool is_by_machine = kind == Kind::kWait && !options.is_set[static_cast<uint32_t>(id)];
  return static_cast<uint64_t>(is_by_machine ? kOptions[static_cast<uint32_t>(id)].autosize : options.Get(id));
}

uint64_t RecordBytesFor(Kind kind, const Options& options) {
  return RecordBytes(kind, static_cast<uint64_t>(options.Get(OptionId::max_sql_text_length)),
                     static_cast<uint64_t>(options.Get(OptionId::max_digest_length)));
}

uint64_t LongTextBytesFor(const Options& options) {
  return LongTextBytes(static_cast<uint64_t>(options.Get(OptionId::max_sql_text_length)),
                       static_cast<uint64_t>(options.Get(OptionId::max_digest_length)));
}

Plan::Plan(const Options& options) : bytes(kHeaderCapacity) {
  const uint64_t classes = MostClasses(options);
  const uint64_t columns = Capacity(ArrayId::kThreadCells, classes, options) / Capacity(ArrayId::kThreads, classes, options);
  uint64_t whole[kArrayCount], of_small = 0;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const auto id = static_cast<ArrayId>(i);
    Place& place = arrays[i];
    place = {0, Stride(id, options), Capacity(id, classes, options), 0};
    whole[i] = RoundToPages(place.capacity * place.stride);
    const bool is_small = whole[i] <= kMostOfSmallArray && of_small + whole[i] <= kMostOfSmallArrays;
    place.first_extent = is_small ? whole[i] : FirstExtent(id, whole[i], columns * sizeof(ShmCell));
    if (is_small) of_small += whole[i];
    while (place.first_extent != 0 && ExtentBegin(place.first_extent, kMostExtents) < whole[i]) place.first_extent *= 2;
  }
  // A forked child needs the header and the classes at once.
  uint32_t at = 0;
  const auto put = [&](uint32_t i) {
    arrays[i].offset = bytes;
    bytes += whole[i];
    order[at++] = static_cast<ArrayId>(i);
  };
  constexpr auto kFirst = static_cast<uint32_t>(ArrayId::kClasses);
  put(kFirst);
  for (const bool has_one_extent : {true, false}) {
    for (uint32_t i = 0; i < kArrayCount; ++i) {
      if (i != kFirst && (arrays[i].first_extent == whole[i]) == has_one_extent) put(i);
    }
  }
}

}  // namespace perfschema
