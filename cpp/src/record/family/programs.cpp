#include "record/family/programs.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/hash.h"
#include "base/secrets.h"
#include "record/engine/names.h"
#include "record/engine/slots.h"
#include "record/engine/texts.h"
#include "record/family/program_tables.h"

namespace perfschema {
namespace {

// Hash table of programs by name; chains run through hash_next. Guarded by the cold lock.
constexpr uint32_t kProgramBuckets = 1u << 12;
uint32_t program_buckets[kProgramBuckets];

ShmStoredProgram* Programs() { return g_runtime.segment.element<ShmStoredProgram>(ArrayId::kPrograms, 0); }
ShmPrepared& PreparedAt(uint64_t index) {
  const uint64_t stride = g_runtime.segment.array(ArrayId::kPrepared).stride;
  return *reinterpret_cast<ShmPrepared*>(g_runtime.segment.element<char>(ArrayId::kPrepared, 0) + index * stride);
}

uint32_t& BucketOf(ObjectType type, std::string_view name) {
  return program_buckets[Hash(static_cast<uint64_t>(type)).Add(name).folded() % kProgramBuckets];
}

bool Is(const ShmStoredProgram& program, ObjectType type, std::string_view name) {
  return program.type.load(kRelaxed) == static_cast<uint32_t>(type) && NameText(program.name.load(kRelaxed)) == name;
}

ShmStoredProgram* MakeProgram(ObjectType type, std::string_view name) {
  const uint64_t slot = AllocateSlot(ArrayId::kPrograms, Programs(), &ShmStoredProgram::hash_next);
  const uint32_t granule = slot == 0 ? 0 : AcquireName(name);
  if (slot != 0 && granule == 0) FreeSlot(ArrayId::kPrograms, Programs(), &ShmStoredProgram::hash_next, slot);
  if (granule == 0) {
    CountLoss(Loss::kPrograms);
    return nullptr;
  }
  ShmStoredProgram& program = Programs()[slot];
  program.version.fetch_add(1, kRelaxed);
  program.type.store(static_cast<uint32_t>(type), kRelaxed);
  program.name.store(granule, kRelaxed);
  program.name_version.store(NameVersion(granule), kRelaxed);
  program.flags.store(ObjectBits(type, name), kRelaxed);
  uint32_t& head = BucketOf(type, name);
  program.hash_next.store(head, kRelaxed);
  head = static_cast<uint32_t>(slot);
  program.object.generation.fetch_add(1, kRelease);  // live from here on; pairs with Snapshot
  return &program;
}

// Returns the generation to count for. 0: the object has died, or is another one.
template <typename Object>
uint32_t GenerationOf(const Object& object, uint32_t version) {
  const uint32_t generation = object.object.generation.load(kAcquire);
  return IsLive(generation) && object.version.load(kRelaxed) == version ? generation : 0;
}

// REQUIRES: cold lock.
void StorePreparedText(ShmPrepared& prepared, std::string_view text) {
  const size_t limit = g_runtime.header->options[static_cast<uint32_t>(OptionId::max_sql_text_length)];
  char masked[1024];
  if (MayHaveSecret(text)) {
    if (const size_t bytes = CutTextWithoutSecrets(text, std::min(limit, sizeof masked), masked); bytes != 0) text = {masked, bytes};
  }
  text = CutText(text, limit);
  const CellWriter writer(prepared.seq);
  CopyToShared(&prepared + 1, text.data(), text.size());
  prepared.text_bytes.store(static_cast<uint32_t>(text.size()), kRelease);
}

void EmptyAll(uint64_t used, ShmStatementObject& (*at)(uint64_t index)) {
  for (uint64_t i = 1; i < used; ++i) {
    if (IsLive(at(i).generation.load(kRelaxed))) at(i).generation.fetch_add(2, kRelease);  // pairs with Snapshot and GenerationOf
  }
}

}  // namespace

ShmStoredProgram* FindProgram(ObjectType type, std::string_view schema, std::string_view name) {
  if (!EnsureStarted()) return nullptr;
  const ObjectName full{schema, name};
  const int error = errno;
  ShmStoredProgram* found = nullptr;
  if (const ColdLock lock; lock) {
    for (uint32_t at = BucketOf(type, full.view()); at != 0 && found == nullptr; at = Programs()[at].hash_next.load(kRelaxed)) {
      if (Is(Programs()[at], type, full.view())) found = &Programs()[at];
    }
    if (found == nullptr) found = MakeProgram(type, full.view());
  }
  errno = error;
  return found;
}

void DropProgram(ObjectType type, std::string_view schema, std::string_view name) {
  if (!EnsureStarted()) return;
  const ObjectName full{schema, name};
  const ColdLock lock;
  if (!lock) return;
  uint32_t before = 0;
  uint32_t& head = BucketOf(type, full.view());
  uint32_t at = head;
  for (; at != 0 && !Is(Programs()[at], type, full.view()); at = Programs()[at].hash_next.load(kRelaxed)) before = at;
  if (at == 0) return;
  ShmStoredProgram& program = Programs()[at];
  const uint32_t next = program.hash_next.load(kRelaxed);
  if (before == 0) {
    head = next;
  } else {
    Programs()[before].hash_next.store(next, kRelaxed);
  }
  program.object.generation.fetch_add(1, kRelease);  // not shown any more
  program.version.fetch_add(1, kRelaxed);
  ReleaseName(program.name.load(kRelaxed));
  FreeSlot(ArrayId::kPrograms, Programs(), &ShmStoredProgram::hash_next, at);
}

void CountCall(ThreadState& thread, ShmStoredProgram& program, uint32_t version, const Measured& time) {
  const uint32_t generation = GenerationOf(program, version);
  if (generation == 0 || (program.flags.load(kRelaxed) & kTableEnabled) == 0) return;
  const bool timed = time.timed && (program.flags.load(kRelaxed) & kTableTimed) != 0;
  AddToObject(thread, program.object, generation, false, [&](ShmStatementCell& cell) { AddToStat(cell.stat, timed, time.wait_ps); });
}

void CountInProgram(ThreadState& thread, ShmStoredProgram& program, uint32_t version, const StatementNumbers& numbers) {
  const uint32_t generation = GenerationOf(program, version);
  if (generation == 0 || (program.flags.load(kRelaxed) & kTableEnabled) == 0) return;
  AddToObject(thread, program.object, generation, true, [&](ShmStatementCell& cell) {
    AddCounters(cell, numbers);
    if (ShmStatementRest* const rest = RestOf(cell); rest != nullptr)
      AddToStat(reinterpret_cast<ShmStat&>(rest->words[kInnerWord - kRestBegin]), numbers.time.timed, numbers.time.wait_ps);
  });
}

ShmPrepared* MakePrepared(const NewPrepared& wanted) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return nullptr;
  const int error = errno;
  ShmPrepared* made = nullptr;
  if (const ColdLock lock; lock) {
    ShmArray& array = g_runtime.segment.array(ArrayId::kPrepared);
    uint64_t index = array.free_head.load(kRelaxed);
    if (index != 0) {
      array.free_head.store(PreparedAt(index).identity.load(kRelaxed), kRelaxed);
    } else if (const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kPrepared); fresh > 0) {
      index = static_cast<uint64_t>(fresh);
    }
    if (index != 0) made = &PreparedAt(index);
    if (made != nullptr) {
      {
        const CellWriter writer(made->seq);
        made->identity.store(wanted.identity, kRelease);
        made->statement_id.store(wanted.statement_id, kRelease);
        made->owner_thread_id.store(thread->thread_id, kRelease);
        made->owner_event_id.store(wanted.owner_event_id, kRelease);
        made->prepare_ps.store(wanted.prepare_ps, kRelease);
        made->reprepared.store(0, kRelease);
        made->is_secondary.store(0, kRelease);
        const ShmStoredProgram* const program = wanted.program;
        made->program_type.store(program == nullptr ? 0 : program->type.load(kRelaxed), kRelease);
        made->program_name.store(program == nullptr ? 0 : program->name.load(kRelaxed), kRelease);
        made->program_name_version.store(program == nullptr ? 0 : program->name_version.load(kRelaxed), kRelease);
        StoreText(made->name, CutText(wanted.name, sizeof made->name));
      }
      StorePreparedText(*made, wanted.text);
      made->version.fetch_add(1, kRelaxed);
      made->object.generation.fetch_add(1, kRelease);  // live from here on; pairs with Snapshot
    }
  }
  errno = error;
  if (made == nullptr) CountLoss(Loss::kPreparedStatements);
  return made;
}

void DestroyPrepared(ShmPrepared& prepared) {
  const ColdLock lock;
  if (!lock || !IsLive(prepared.object.generation.load(kRelaxed))) return;
  prepared.object.generation.fetch_add(1, kRelease);  // not shown any more
  prepared.version.fetch_add(1, kRelaxed);
  ShmArray& array = g_runtime.segment.array(ArrayId::kPrepared);
  prepared.identity.store(array.free_head.load(kRelaxed), kRelaxed);
  array.free_head.store(
      static_cast<uint64_t>(reinterpret_cast<char*>(&prepared) - g_runtime.segment.element<char>(ArrayId::kPrepared, 0)) / array.stride,
      kRelaxed);
}

void SetPreparedText(ShmPrepared& prepared, std::string_view text) {
  if (const ColdLock lock; lock) StorePreparedText(prepared, text);
}

void SetPreparedSecondary(ShmPrepared& prepared, bool is_secondary) { prepared.is_secondary.store(is_secondary ? 1 : 0, kRelease); }

void CountExecution(ThreadState& thread, ShmPrepared& prepared, uint32_t version, const StatementNumbers& numbers) {
  const uint32_t generation = GenerationOf(prepared, version);
  if (generation == 0) return;
  AddToObject(thread, prepared.object, generation, NeedsRest(numbers), [&](ShmStatementCell& cell) { AddStatement(cell, numbers); });
}

void EmptyPrograms() {
  EmptyAll(g_runtime.segment.array(ArrayId::kPrograms).used.load(kRelaxed),
           [](uint64_t i) -> ShmStatementObject& { return Programs()[i].object; });
}
void EmptyPrepared() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kPrepared).used.load(kRelaxed);
  EmptyAll(used, [](uint64_t i) -> ShmStatementObject& { return PreparedAt(i).object; });
  for (uint64_t i = 1; i < used; ++i) PreparedAt(i).reprepared.store(0, kRelease);
}

void ReapplyRulesToPrograms() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kPrograms).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmStoredProgram& program = Programs()[i];
    if (!IsLive(program.object.generation.load(kRelaxed))) continue;
    program.flags.store(ObjectBits(static_cast<ObjectType>(program.type.load(kRelaxed)), NameText(program.name.load(kRelaxed))), kRelaxed);
  }
}

}  // namespace perfschema
