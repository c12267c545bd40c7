#include "record/engine/adopted.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "record/engine/runtime.h"
#include "shm/shapes.h"

namespace perfschema {
namespace {

uint64_t UsedOf(ArrayId id) { return g_runtime.segment.array(id).used.load(kRelaxed); }

// Remembers the first error found; nullptr: none so far.
class Checker {
 public:
  void Demand(bool good, const char* what) {
    if (!good && wrong_ == nullptr) wrong_ = what;
  }
  bool ok() const { return wrong_ == nullptr; }
  const char* wrong() const { return wrong_; }

  // Calls each(element) for all elements that were ever taken.
  template <typename T, typename Each>
  void ForEach(ArrayId id, Each each) {
    const uint64_t used = UsedOf(id);
    for (uint64_t i = 1; i < used && ok(); ++i) each(*g_runtime.segment.element<T>(id, i), i);
  }
  // Checks a list of indices that ends with 0. An element is in one list, once. `seen`: elements of all lists of the
  // array.
  template <typename T, typename Next>
  void CheckList(ArrayId id, uint64_t head, Next next, std::vector<bool>* seen, const char* what) {
    seen->resize(UsedOf(id));
    while (head != 0 && ok()) {
      Demand(head < seen->size() && !(*seen)[head], what);
      if (!ok()) return;
      (*seen)[head] = true;
      head = next(*g_runtime.segment.element<T>(id, head));
    }
  }
  template <typename T, typename Number>
  void CheckFreeList(ArrayId id, std::atomic<Number> T::*link, const char* what) {
    std::vector<bool> seen;
    CheckList<T>(
        id, g_runtime.segment.array(id).free_head.load(kRelaxed), [&](const T& one) { return (one.*link).load(kRelaxed); }, &seen, what);
  }
  // Checks a name that NameText() reads.
  void CheckName(uint32_t granule, const char* what) {
    if (granule == 0) return;
    Demand(granule < UsedOf(ArrayId::kNames), what);
    if (!ok()) return;
    const uint32_t bytes = g_runtime.segment.element<ShmNameGranule>(ArrayId::kNames, granule)->bytes.load(kRelaxed);
    const uint64_t granules = (offsetof(ShmNameGranule, text) + uint64_t{bytes} + sizeof(ShmNameGranule) - 1) / sizeof(ShmNameGranule);
    Demand(bytes <= kMaxObjectName && granule + granules <= g_runtime.segment.array(ArrayId::kNames).capacity, what);
  }

 private:
  const char* wrong_ = nullptr;
};

// Returns true if the first `columns` of row `index` are mapped.
bool HasColumns(ArrayId rows, uint64_t index, uint64_t columns) {
  return columns <= g_runtime.cells_per_thread &&
         (columns == 0 || (index * g_runtime.cells_per_thread + columns) * sizeof(ShmCell) <= g_runtime.segment.MappedBytes(rows));
}

void CheckHeader(Checker& check) {
  const ShmHeader& header = *g_runtime.header;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header.arrays[i];
    const uint64_t used = array.used.load(kRelaxed);
    check.Demand(used <= array.capacity && (used == 1 || used * array.stride <= g_runtime.segment.MappedBytes(static_cast<ArrayId>(i))),
                 "an array has more elements than its capacity");
  }
  for (uint32_t i = 0; i < kEventKinds; ++i) {
    const ShmArray& records = g_runtime.segment.array(kRecordsOf[i]);
    check.Demand(header.record_bytes[i] == g_runtime.pools[i].record_bytes &&
                     PerChunk(static_cast<Kind>(i)) * header.record_bytes[i] <= records.stride,
                 "the size of records");
    const uint64_t mapped = g_runtime.segment.MappedBytes(kRecordsOf[i]);
    check.ForEach<ShmChunk>(kChunksOf[i], [&](const ShmChunk& chunk, uint64_t) {
      const uint64_t begin = chunk.begin.load(kRelaxed), bytes = chunk.Ready(PerChunk(static_cast<Kind>(i))) * header.record_bytes[i];
      check.Demand(IsPlaceOfRecords(begin, bytes, mapped), "where the records of a chunk are");
    });
  }
  for (const HalfWord& timer : header.timer_of)
    check.Demand(timer.load(kRelaxed) - 1 < static_cast<uint32_t>(kTimerCount), "a timer of setup_timers");
  for (const TimerScale& timer : header.timers) check.Demand(timer.source < static_cast<uint64_t>(kTimerCount), "the source of a timer");
  check.Demand(HasColumns(ArrayId::kGlobalCells, 0, header.remainder_cells.load(kRelaxed)), "the columns of a row");
}

void CheckClasses(Checker& check) {
  const uint64_t used = UsedOf(ArrayId::kClasses);
  check.ForEach<ShmClass>(ArrayId::kClasses, [&](const ShmClass& entry, uint64_t i) {
    check.Demand(entry.family < static_cast<uint32_t>(kFamilyCount), "the family of an instrument");
    check.Demand(entry.name_bytes <= sizeof entry.name && entry.documentation_bytes <= sizeof entry.documentation,
                 "the name of an instrument");
    if (!check.ok()) return;
    const uint64_t dead = entry.dead.load(kRelaxed), lanes = TraitsOf(static_cast<Family>(entry.family)).lanes;
    check.Demand(dead == 0 || dead + std::max<uint64_t>(lanes, 1) <= UsedOf(ArrayId::kCells), "the numbers that an instrument keeps");
    if (!check.ok() || entry.ready.load(kRelaxed) == 0) return;
    const uint32_t columns = ColumnsOf(TraitsOf(static_cast<Family>(entry.family)).kind);
    check.Demand(entry.index == i && i + columns <= used && i + columns <= g_runtime.cells_per_thread, "the number of an instrument");
  });
}

void CheckPrincipals(Checker& check) {
  const uint64_t accounts = UsedOf(ArrayId::kAccounts), users = UsedOf(ArrayId::kUsers), hosts = UsedOf(ArrayId::kHosts);
  check.ForEach<ShmThread>(ArrayId::kThreads, [&](const ShmThread& thread, uint64_t slot) {
    check.Demand(thread.account.load(kRelaxed) < accounts && thread.user.load(kRelaxed) < users && thread.host.load(kRelaxed) < hosts,
                 "the account of a thread");
    check.Demand(HasColumns(ArrayId::kThreadCells, slot, thread.cells.load(kRelaxed)) &&
                     HasColumns(ArrayId::kGlobalCells, slot, thread.global_cells.load(kRelaxed)),
                 "the columns of a thread");
  });
  for (const auto& [id, rows] : {std::pair{ArrayId::kAccounts, ArrayId::kAccountCells},
                                 {ArrayId::kUsers, ArrayId::kUserCells},
                                 {ArrayId::kHosts, ArrayId::kHostCells}}) {
    check.ForEach<ShmPrincipal>(id, [&, rows = rows](const ShmPrincipal& principal, uint64_t index) {
      check.Demand(principal.user.load(kRelaxed) < users && principal.host.load(kRelaxed) < hosts, "the user or host of an account");
      check.Demand(HasColumns(rows, index, principal.cells.load(kRelaxed)), "the columns of an account, user or host");
    });
    check.CheckFreeList(id, &ShmPrincipal::hash_next, "the free list of accounts, users or hosts");
  }
}

void CheckObjects(Checker& check) {
  const uint64_t classes = UsedOf(ArrayId::kClasses);
  check.ForEach<ShmInstance>(ArrayId::kInstances, [&](const ShmInstance& one, uint64_t) {
    check.Demand(one.class_index.load(kRelaxed) < classes, "the instrument of an object");
  });
  check.ForEach<ShmFile>(ArrayId::kFiles, [&](const ShmFile& one, uint64_t) {
    check.Demand(one.class_index.load(kRelaxed) < classes, "the instrument of a file");
  });
  check.ForEach<ShmTable>(ArrayId::kTables, [&](const ShmTable& one, uint64_t) {
    if (one.type.load(kRelaxed) != 0) check.CheckName(one.name.load(kRelaxed), "the name of a table");
  });
  check.ForEach<ShmStoredProgram>(ArrayId::kPrograms, [&](const ShmStoredProgram& one, uint64_t) {
    if (IsLive(one.object.generation.load(kRelaxed))) check.CheckName(one.name.load(kRelaxed), "the name of a stored program");
  });
  check.CheckFreeList(ArrayId::kActors, &ShmActor::next, "the free list of setup_actors");
  check.CheckFreeList(ArrayId::kObjectRules, &ShmObjectRule::next, "the free list of setup_objects");
  check.CheckFreeList(ArrayId::kInstrumentRules, &ShmInstrumentRule::next, "the free list of setup_instrument_rules");
}

void CheckFacts(Checker& check) {
  const auto next = [](const ShmFactBlock& block) { return block.next.load(kRelaxed); };
  std::vector<bool> seen;
  check.CheckList<ShmFactBlock>(ArrayId::kFactBlocks, g_runtime.segment.array(ArrayId::kFactBlocks).free_head.load(kRelaxed), next, &seen,
                                "the free list of blocks");
  check.ForEach<ShmFact>(ArrayId::kFacts, [&](const ShmFact& fact, uint64_t) {
    const uint32_t kind = fact.kind.load(kRelaxed);
    check.Demand(kind < static_cast<uint32_t>(FactKind::kCount), "the kind of a row of the program");
    if (kind != 0)
      check.CheckList<ShmFactBlock>(ArrayId::kFactBlocks, fact.block.load(kRelaxed), next, &seen, "the blocks of a row of the program");
  });
  check.CheckFreeList(ArrayId::kFacts, &ShmFact::block, "the free list of rows of the program");
}

}  // namespace

Status CheckAdopted() {
  Checker check;
  for (void (*part)(Checker&) : {CheckHeader, CheckClasses, CheckPrincipals, CheckObjects, CheckFacts}) {
    if (check.ok()) part(check);
  }
  if (check.ok()) return {};
  return Status(Code::kCorrupt,
                std::string(g_runtime.segment.path()) + " is damaged (" + check.wrong() + " is wrong): it can be read but not changed");
}

}  // namespace perfschema
