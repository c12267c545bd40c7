#include "record/declared/facts.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/hash.h"
#include "base/like.h"
#include "base/private_memory.h"
#include "record/context/threads.h"
#include "shm/budget.h"

namespace perfschema {
namespace {

// Hash tables: of facts by (kind, owner, key), and of threads' facts by owner. Guarded by the cold lock.
constexpr uint32_t kFactBuckets = 4096, kOwnerBuckets = 1024;
struct Lists {
  uint32_t by_hash[kFactBuckets];
  uint32_t by_owner[kOwnerBuckets];
  uint32_t counts[static_cast<uint32_t>(FactKind::kCount)];
};
Lists* lists = nullptr;

// The segment of facts while pfs is off: private, with capacity for facts only.
constinit Segment off_segment;
std::atomic<bool> is_kept_off{false};
pthread_key_t off_exit_key;

Segment& Home() { return g_runtime.on ? g_runtime.segment : off_segment; }
ShmFact& FactAt(uint64_t index) { return *Home().element<ShmFact>(ArrayId::kFacts, index); }
ShmFactBlock& BlockAt(uint64_t index) { return *Home().element<ShmFactBlock>(ArrayId::kFactBlocks, index); }

uint32_t HashOf(FactKind kind, uint64_t owner, KeyTexts key) {
  Hash hash(static_cast<uint64_t>(kind) ^ owner << 8);
  for (const std::string_view text : key) {
    for (const char c : text) hash.AddByte(static_cast<uint8_t>(TraitsOf(kind).folds_case ? AsciiLower(c) : c));
    hash.AddByte(0xff);
  }
  return static_cast<uint32_t>(hash.value() >> 32);
}

bool HasKey(const Fact& fact, FactKind kind, KeyTexts key) {
  size_t i = 0;
  for (const std::string_view text : key) {
    if (!(TraitsOf(kind).folds_case ? EqualsIgnoringCase(fact.text(i), text) : fact.text(i) == text)) return false;
    ++i;
  }
  return true;
}

// ---- Blocks

uint32_t TakeBlock() {
  ShmArray& array = Home().array(ArrayId::kFactBlocks);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    array.free_head.store(BlockAt(free).next.load(kRelaxed), kRelaxed);
    return static_cast<uint32_t>(free);
  }
  const int64_t fresh = Home().AllocateFresh(ArrayId::kFactBlocks, 1, kPartsOfLog);
  return fresh < 0 ? 0 : static_cast<uint32_t>(fresh);
}

void GiveChain(uint32_t block) {
  ShmArray& array = Home().array(ArrayId::kFactBlocks);
  while (block != 0) {
    const uint32_t next = BlockAt(block).next.load(kRelaxed);
    BlockAt(block).next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelease);
    array.free_head.store(block, kRelaxed);
    block = next;
  }
}

// Makes a chain that holds `bytes`. Returns 0 if the store is full.
uint32_t MakeChain(std::string_view bytes) {
  uint32_t first = 0;
  HalfWord* link = nullptr;
  for (size_t done = 0; done < bytes.size(); done += kFactBlockBytes) {
    const uint32_t block = TakeBlock();
    if (block == 0) {
      GiveChain(first);
      return 0;
    }
    BlockAt(block).next.store(0, kRelaxed);
    CopyToShared(BlockAt(block).words, bytes.data() + done, std::min<size_t>(bytes.size() - done, kFactBlockBytes));
    if (link == nullptr) {
      first = block;
    } else {
      link->store(block, kRelease);
    }
    link = &BlockAt(block).next;
  }
  return first;
}

// ---- Facts

FactIndex TakeFact() {
  ShmArray& array = Home().array(ArrayId::kFacts);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    array.free_head.store(FactAt(free).block.load(kRelaxed), kRelaxed);
    return static_cast<FactIndex>(free);
  }
  const int64_t fresh = Home().AllocateFresh(ArrayId::kFacts);
  return fresh < 0 ? 0 : static_cast<FactIndex>(fresh);
}

void GiveFact(FactIndex index) {
  ShmArray& array = Home().array(ArrayId::kFacts);
  FactAt(index).block.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelease);
  array.free_head.store(index, kRelaxed);
}

void Unlink(uint32_t& head, FactIndex index, HalfWord ShmFact::*next) {
  if (head == index) {
    head = (FactAt(index).*next).load(kRelaxed);
    return;
  }
  for (uint32_t at = head; at != 0; at = (FactAt(at).*next).load(kRelaxed)) {
    if ((FactAt(at).*next).load(kRelaxed) != index) continue;
    (FactAt(at).*next).store((FactAt(index).*next).load(kRelaxed), kRelaxed);
    return;
  }
}

void Link(FactIndex index) {
  ShmFact& fact = FactAt(index);
  const auto push = [&](uint32_t& head, HalfWord& next) {
    next.store(head, kRelaxed);
    head = index;
  };
  push(lists->by_hash[fact.hash.load(kRelaxed) % kFactBuckets], fact.hash_next);
  if (const uint64_t owner = fact.owner.load(kRelaxed); owner != 0) push(lists->by_owner[owner % kOwnerBuckets], fact.owner_next);
  ++lists->counts[fact.kind.load(kRelaxed)];
}

FactIndex Find(FactKind kind, uint64_t owner, uint32_t hash, KeyTexts key) {
  for (uint32_t at = lists->by_hash[hash % kFactBuckets]; at != 0; at = FactAt(at).hash_next.load(kRelaxed)) {
    const ShmFact& fact = FactAt(at);
    if (fact.hash.load(kRelaxed) != hash || fact.kind.load(kRelaxed) != static_cast<uint32_t>(kind) || fact.owner.load(kRelaxed) != owner)
      continue;
    if (HasKey(LoadFact(at), kind, key)) return at;
  }
  return 0;
}

// Drops all live facts for which fits(fact) is true.
template <typename Fits>
void DropThoseThat(Fits fits) {
  const uint64_t used = Home().array(ArrayId::kFacts).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    if (FactAt(i).kind.load(kRelaxed) != 0 && fits(FactAt(i), static_cast<FactIndex>(i))) DropFact(static_cast<FactIndex>(i));
  }
}

// ---- While pfs is off

void EndThreadWhileOff(void*) {
  const ColdLock lock;
  if (lock) DropFactsOf(OsIdOfThisThread());
}

bool KeepWhileOff() {
  if (is_kept_off.load(kRelaxed)) return true;
  Options options = StartOptionsLocked();
  const int64_t rows = options.Get(OptionId::max_program_rows);
  for (uint32_t i = 0; i < kOptionCount; ++i) options.values[i] = std::max<int64_t>(0, kOptions[i].minimum);
  options.values[static_cast<uint32_t>(OptionId::max_program_rows)] = rows;
  std::string reason;
  if (!off_segment.Create(options, &reason, true).ok() || !StartFacts() || pthread_key_create(&off_exit_key, EndThreadWhileOff) != 0)
    return false;
  HearOfForks();
  is_kept_off.store(true, kRelease);  // pairs with FactsWhileOff
  return true;
}

}  // namespace

bool StartFacts() {
  void* const memory = MapPrivate(sizeof(Lists));
  if (memory == nullptr) return false;
  lists = static_cast<Lists*>(memory);
  return true;
}

void ReindexFacts() {
  std::memset(lists, 0, sizeof *lists);
  const uint64_t used = Home().array(ArrayId::kFacts).used.load(kRelaxed);
  for (uint32_t i = 1; i < used; ++i) {
    const uint32_t kind = FactAt(i).kind.load(kRelaxed);
    if (kind != 0 && kind < static_cast<uint32_t>(FactKind::kCount)) Link(i);
  }
}

SegmentView FactsWhileOff() { return is_kept_off.load(kAcquire) ? off_segment.view() : SegmentView(); }  // pairs with KeepWhileOff

Status WithFacts(FactKind kind, const std::function<Status()>& body) {
  const int error = errno;
  const bool is_on = EnsureStarted();
  Status status;
  if (is_on || TraitsOf(kind).is_kept_when_off) {
    const ColdLock lock;
    if (!lock) {
      status = Status(Code::kState, "in a signal handler that interrupted pfs: try again outside of it");
    } else if (!is_on && !KeepWhileOff()) {
      status = Status(Code::kFull, "no memory for rows of the program");
    } else {
      status = body();
    }
  }
  errno = error;
  return status;
}

uint64_t OwnerOfFacts() {
  if (EnsureStarted()) {
    const uint64_t id = CurrentThreadId();
    if (id == 0) CountLoss(Loss::kProgramRows);
    return id;
  }
  if (!WithFacts(FactKind::kThreadVariable, [] { return Status(); }).ok()) return 0;
  pthread_setspecific(off_exit_key, &off_exit_key);
  return OsIdOfThisThread();
}

FactIndex FindFact(FactKind kind, uint64_t owner, KeyTexts key) { return Find(kind, owner, HashOf(kind, owner, key), key); }

Fact LoadFact(FactIndex index) {
  const ShmFact& shm = FactAt(index);
  Fact fact;
  std::string bytes;
  if (!ReadChain(
          shm.block.load(kRelaxed), shm.bytes.load(kRelaxed), [](uint32_t at) { return at == 0 ? nullptr : &BlockAt(at); }, &bytes))
    return fact;
  (void)DecodeFact(
      bytes, [&](uint64_t number) { fact.numbers.push_back(number); },
      [&](std::optional<std::string_view> text) { fact.texts.emplace_back(text ? FactText(std::string(*text)) : FactText()); });
  return fact;
}

Word& SettingOf(FactIndex index) { return FactAt(index).setting; }

FactIndex StoreFact(FactKind kind, uint64_t owner, const Fact& fact) {
  const uint32_t key_texts = TraitsOf(kind).key_texts;
  const KeyTexts none, one{fact.text(0)}, two{fact.text(0), fact.text(1)};
  const KeyTexts& key = key_texts == 0 ? none : key_texts == 1 ? one : two;
  const uint32_t hash = HashOf(kind, owner, key);
  FactIndex index = Find(kind, owner, hash, key);
  const std::string bytes = EncodeFact(fact);
  const uint32_t chain = bytes.size() > kMostFactBytes ? 0 : MakeChain(bytes);
  const bool is_new = index == 0;
  if (is_new && chain != 0) index = TakeFact();
  if (chain == 0 || index == 0) {
    GiveChain(chain);
    CountLoss(Loss::kProgramRows);
    return 0;
  }
  ShmFact& shm = FactAt(index);
  {
    const CellWriter writer(shm.seq);  // pairs with ForEachFact
    if (!is_new) GiveChain(shm.block.load(kRelaxed));
    shm.block.store(chain, kRelease);
    shm.bytes.store(static_cast<uint32_t>(bytes.size()), kRelease);
    if (is_new) {
      shm.setting.store(0, kRelaxed);
      shm.owner.store(owner, kRelease);
      shm.kind.store(static_cast<uint32_t>(kind), kRelease);
    }
  }
  if (!is_new) return index;
  shm.hash.store(hash, kRelaxed);
  Link(index);
  return index;
}

void DropFact(FactIndex index) {
  ShmFact& shm = FactAt(index);
  Unlink(lists->by_hash[shm.hash.load(kRelaxed) % kFactBuckets], index, &ShmFact::hash_next);
  if (const uint64_t owner = shm.owner.load(kRelaxed); owner != 0)
    Unlink(lists->by_owner[owner % kOwnerBuckets], index, &ShmFact::owner_next);
  --lists->counts[shm.kind.load(kRelaxed)];
  const CellWriter writer(shm.seq);
  shm.kind.store(0, kRelease);
  GiveChain(shm.block.load(kRelaxed));
  GiveFact(index);
}

void DropFactsIf(FactKind kind, const std::function<bool(const Fact&)>& fits) {
  DropThoseThat(
      [&](ShmFact& shm, FactIndex index) { return shm.kind.load(kRelaxed) == static_cast<uint32_t>(kind) && fits(LoadFact(index)); });
}

uint32_t CountFacts(FactKind kind) { return lists->counts[static_cast<uint32_t>(kind)]; }

Status DeclaredRowsAreFull() {
  return Status(Code::kFull, "cannot add another row of the program: performance_schema_max_program_rows is " +
                                 std::to_string(StartOptionsLocked().Get(OptionId::max_program_rows)));
}

const ShmFact* FactOfKey(FactKind kind, uint32_t key) {
  if (key == 0 || !__atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE) || key >= g_runtime.segment.array(ArrayId::kFacts).used.load(kAcquire))
    return nullptr;
  const ShmFact& fact = FactAt(key);
  return fact.kind.load(kAcquire) == static_cast<uint32_t>(kind) ? &fact : nullptr;
}

void DropFactsOf(uint64_t owner) {
  for (uint32_t at = lists->by_owner[owner % kOwnerBuckets]; at != 0;) {
    const uint32_t next = FactAt(at).owner_next.load(kRelaxed);
    if (FactAt(at).owner.load(kRelaxed) == owner) DropFact(at);
    at = next;
  }
}

namespace {

// The remaining facts are the forking thread's, which has a new number in the system.
void ContinueFactsWhileOff() {
  if (!is_kept_off.load(kRelaxed)) return;
  const uint64_t parent = OsIdOfThisThread();
  t_locals.os_id = 0;
  DropThoseThat([&](ShmFact& fact, FactIndex) {
    const uint64_t owner = fact.owner.load(kRelaxed);
    return owner != 0 && owner != parent;
  });
  for (uint32_t at = lists->by_owner[parent % kOwnerBuckets]; at != 0;) {
    const uint32_t next = FactAt(at).owner_next.load(kRelaxed);
    const auto kind = static_cast<FactKind>(FactAt(at).kind.load(kRelaxed));
    const Fact fact = LoadFact(at);
    if (FactAt(at).owner.load(kRelaxed) == parent) {
      DropFact(at);
      (void)StoreFact(kind, OsIdOfThisThread(), fact);
    }
    at = next;
  }
}

}  // namespace

void ContinueFactsInChild() {
  if (!g_runtime.on) return ContinueFactsWhileOff();
  DropThoseThat([](ShmFact& fact, FactIndex) {
    const uint64_t owner = fact.owner.load(kRelaxed);
    if (owner == 0) return false;
    const uint64_t used = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
    for (uint64_t slot = 1; slot < used; ++slot) {
      if (g_runtime.threads[slot].thread_id.load(kRelaxed) == owner) return false;
    }
    return true;
  });
}

}  // namespace perfschema
