#include "record/family/passing_names.h"

#include "record/engine/names.h"
#include "record/family/file_index.h"

namespace perfschema {
namespace {

// A holder adds itself before it reads `name`; whoever replaces a name clears it before it reads `holders`. All four are in one order
// (memory_order_seq_cst), so one of the two sees the other, and no name is released that somebody holds.
struct PassingName {
  std::atomic<uint32_t> holders;
  std::atomic<uint32_t> hash;  // of `name`. Stored before it
  std::atomic<uint64_t> name;  // a word as in ShmFile::name; 0 = none. Stores are guarded by the cold lock
  std::atomic<uint64_t> site;  // of the last call << 16 | its class; 0 = not known. One word: no site is seen with another's class
};
constexpr int kClassBits = 16;
constexpr uint32_t kPlaces = 256;
constinit PassingName passing_names[kPlaces] = {};

// The buckets of the index of files have the low bits.
uint32_t PlaceOf(uint32_t hash) { return (hash >> 24) % kPlaces + 1; }
PassingName& At(uint32_t place) { return passing_names[place - 1]; }

// Releases the name in a place. Returns false if a call holds it.
bool Empty(PassingName& at) {
  const uint64_t old = at.name.exchange(0);
#if !defined(PFS_BREAK_PASSING_NAMES)  // negative control of the stress test: a held name is replaced
  if (at.holders.load() != 0) {
    at.name.store(old);
    return false;
  }
#endif
  ReleaseName(static_cast<uint32_t>(old));
  return true;
}
void Fill(PassingName& at, uint64_t word, uint32_t hash) {
  at.hash.store(hash, kRelaxed);
  at.site.store(0, kRelaxed);
  at.name.store(word);
}

}  // namespace

uint32_t HoldPassingName(std::string_view name, uint32_t hash, uint64_t* word) {
  const uint32_t place = PlaceOf(hash);
  PassingName& at = At(place);
  if (at.hash.load(kRelaxed) != hash) return 0;
  at.holders.fetch_add(1);
  const uint64_t found = at.name.load();
  if (IsNameNow(found, name)) {
    *word = found;
    return place;
  }
  at.holders.fetch_sub(1);
  return 0;
}

uint32_t AddPassingName(std::string_view name, uint32_t hash, uint64_t* word) {
  PassingName& at = At(PlaceOf(hash));
  if (!Empty(at)) return 0;
  *word = AcquireNameWord(name);
  if (*word == 0) return 0;
  at.holders.fetch_add(1);
  Fill(at, *word, hash);
  return PlaceOf(hash);
}

void LeavePassingName(uint64_t word, uint32_t hash) {
  PassingName& at = At(PlaceOf(hash));
  Empty(at) ? Fill(at, word, hash) : ReleaseName(static_cast<uint32_t>(word));
}

uint64_t TakePassingName(uint32_t place) {
  PassingName& at = At(place);
  uint64_t word = at.name.exchange(0);
  if (at.holders.load() != 1) {
    at.name.store(word);
    word = 0;
  }
  at.holders.fetch_sub(1);
  return word;
}

void LetPassingNameGo(uint32_t place) { At(place).holders.fetch_sub(1); }

void NoteSiteOfPassingName(uint32_t place, const void* site, uint32_t class_index) {
  const uint64_t word = reinterpret_cast<uintptr_t>(site) << kClassBits | class_index;
  const bool fits = word >> kClassBits == reinterpret_cast<uintptr_t>(site) && class_index < 1u << kClassBits;
  At(place).site.store(fits ? word : 0, kRelaxed);
}

void ForgetSiteOfPassingName(uint32_t place) { At(place).site.store(0, kRelaxed); }

uint32_t ClassOfPassingName(uint32_t place, const void* site) {
  const uint64_t word = At(place).site.load(kRelaxed);
  return word >> kClassBits == reinterpret_cast<uintptr_t>(site) ? static_cast<uint32_t>(word & ((1u << kClassBits) - 1)) : 0;
}

bool IsStillPassing(uint32_t place, uint64_t word) {
  return IsNoFile(NameText(static_cast<uint32_t>(word)), At(place).hash.load(kRelaxed));
}

void ForgetHoldsOfPassingNamesInChild() {
  for (PassingName& at : passing_names) {
    if (at.holders.load(kRelaxed) != 0) at.holders.store(0, kRelaxed);  // a store would copy a page that the parent has, too
  }
}

}  // namespace perfschema
