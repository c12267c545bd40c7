#include "record/family/errors.h"

#include <algorithm>
#include <bit>

#include "base/clock.h"
#include "base/private_memory.h"
#include "base/text.h"
#include "record/engine/classes.h"
#include "record/probe/nested.h"

namespace perfschema {
namespace {

constexpr uint32_t kErrorNameWidth = 64;

// Maps a number to its column: open addressing, at most half full, so that a search always ends. Slots are written
// once, under the cold lock (release), and read by any thread (acquire): number << 32 | kIsGlobal | column; 0 = free.
// Threads: all but the slots is constant after start, except `rows` (cold lock).
constexpr uint64_t kIsGlobal = uint64_t{1} << 31;
struct NumberTable {
  Word* slots = nullptr;
  uint32_t shift = 0;  // the upper bits of a hash are the first slot
  uint32_t mask = 0;
  uint32_t instrument = 0;  // `error`; 0 = not started
  uint32_t others = 0;      // column for numbers without a row of their own; 0 = none
  uint64_t most_rows = 0, rows = 0;
};
NumberTable table;

// Returns the slot of a number, or the free slot that ends the search for it.
Word& SlotOf(int32_t number) {
  uint32_t at = (static_cast<uint32_t>(number) * 2654435769u) >> table.shift;
  while (true) {
    Word& slot = table.slots[at];
    const uint64_t found = slot.load(kAcquire);  // pairs with Register
    if (found == 0 || static_cast<int32_t>(found >> 32) == number) return slot;
    at = (at + 1) & table.mask;
  }
}

// Registers a number; if the table is full, it keeps counting among the others. REQUIRES: cold lock; the number has
// no slot.
void Register(Word& slot, int32_t number, std::string_view name, std::string_view sqlstate, bool is_global) {
  if (table.rows >= table.most_rows) return;
  ShmClass* const entry = NewClass(Family::kErrorNumber, name, {});
  if (entry == nullptr) return;
  entry->key = static_cast<uint32_t>(++table.rows);
  entry->properties = is_global ? kPropertyGlobal : 0;
  entry->error_number = number;
  sqlstate.copy(reinterpret_cast<char*>(entry->sqlstate), 5);
  entry->ready.store(1, kRelease);
  slot.store(uint64_t{static_cast<uint32_t>(number)} << 32 | (is_global ? kIsGlobal : 0) | entry->index, kRelease);
}

PFS_ALWAYS_INLINE void Count(int32_t number, uint32_t word) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  uint32_t flags = FlagsInThread(*thread, table.instrument);
  if (flags == 0) return;
  const uint64_t found = SlotOf(number).load(kRelaxed);
  const auto column = found == 0 ? table.others : static_cast<uint32_t>(found & (kIsGlobal - 1));
  if (column == 0) return;
  if ((found & kIsGlobal) != 0) flags &= ~kFlagThread;
  const NestedProbe probe(*thread);
  if (!probe) return;
  const auto now = WallSeconds();
  AddToSums<Kind::kError>(*thread, column, flags, [&](ShmCell& cell) {
    Word* const words = CellWords(cell);
    words[word].store(words[word].load(kRelaxed) + 1, kRelease);
    if (words[kFirstErrorWord].load(kRelaxed) == 0) words[kFirstErrorWord].store(now, kRelease);
    if (words[kLastErrorWord].load(kRelaxed) < now) words[kLastErrorWord].store(now, kRelease);
  });
}

}  // namespace

bool StartErrors() {
  const uint64_t size = std::min(static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::error_size)), kMostErrors);
  const uint64_t slots = std::bit_ceil(2 * size + 2);
  void* const memory = MapPrivate(slots * sizeof(Word));
  if (memory == nullptr) return false;
  table.slots = static_cast<Word*>(memory);
  table.mask = static_cast<uint32_t>(slots - 1);
  table.shift = 32 - static_cast<uint32_t>(std::countr_zero(slots));
  table.instrument = FindClass(Family::kError, TraitsOf(Family::kError).prefix);
  table.others = size == 0 ? 0 : table.instrument;
  table.most_rows = size == 0 ? 0 : size - 1;
  return true;
}

Status RegisterError(int32_t number, std::string_view name, std::string_view sqlstate, bool is_global) {
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, "error " + std::to_string(number) + ": " + why);
  };
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  const auto is_of_state = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); };
  if (name.empty() || std::any_of(name.begin(), name.end(), is_control)) return refuse("a name is needed, without control characters");
  if (sqlstate.size() != 5 || !std::all_of(sqlstate.begin(), sqlstate.end(), is_of_state)) {
    return refuse("bad SQLSTATE '" + std::string(sqlstate) + "': legal are 5 digits or capital letters, such as HY000");
  }
  name = CutText(name, kErrorNameWidth);
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock) return Status(Code::kState, "an error cannot be registered in a signal handler that interrupted pfs: try again outside of it");
  Word& slot = SlotOf(number);
  const uint64_t found = slot.load(kRelaxed);
  if (found == 0) return Register(slot, number, name, sqlstate, is_global), Status();
  const std::string_view known = NameOf(g_runtime.classes[found & (kIsGlobal - 1)]);
  if (known != name) return Status(Code::kExists, "error " + std::to_string(number) + " is registered already, as " + std::string(known));
  return {};
}

int32_t NumberOfNamedError(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  const std::string_view kept = CutText(name, kErrorNameWidth);
  constexpr uint32_t kNumbers = 0x40000000;
  uint32_t offset = (hash ^ (hash >> 30)) % kNumbers;
  if (!EnsureStarted()) return kFirstNamedError + static_cast<int32_t>(offset);
  if (const ColdLock lock; lock) {
    for (;; offset = (offset + 1) % kNumbers) {
      const int32_t number = kFirstNamedError + static_cast<int32_t>(offset);
      Word& slot = SlotOf(number);
      const uint64_t found = slot.load(kRelaxed);
      if (found == 0) Register(slot, number, kept, "HY000", false);
      if (found == 0 || NameOf(g_runtime.classes[found & (kIsGlobal - 1)]) == kept) break;
    }
  }
  return kFirstNamedError + static_cast<int32_t>(offset);
}

void CountRaised(int32_t number) { Count(number, kRaisedWord); }
void CountHandled(int32_t number) { Count(number, kHandledWord); }

}  // namespace perfschema
