#include "record/family/passing_names.h"

#include "record/family/file_index.h"

namespace perfschema {
namespace {

// A holder adds itself before it reads `name`; a thread that replaces a name claims its place before it reads `holders`. All four are in
// one order (memory_order_seq_cst), so one of the two sees the other, and no name is released that somebody holds. A place that a longjmp
// left while it was claimed has no name any more.
struct PassingName {
  std::atomic<uint32_t> holders;
  std::atomic<uint32_t> hash;  // of `name`. Stored before it
  std::atomic<uint64_t> name;  // a word as in ShmFile::name; 0 = none, kClaimed
  std::atomic<uint64_t> site;  // of the last call << 16 | its class; 0 = not known. One word: no site is seen with another's class
};
constexpr uint64_t kClaimed = uint64_t{1} << 32;  // a word without a granule
constexpr int kClassBits = 16;
constexpr uint32_t kPlaces = 256;
constinit PassingName passing_names[kPlaces] = {};

// The buckets of the index of files have the low bits.
uint32_t PlaceOf(uint32_t hash) { return (hash >> 24) % kPlaces + 1; }
PassingName& At(uint32_t place) { return passing_names[place - 1]; }

// Claims a place whose name this many calls hold, and stores its word. Returns false if others hold it, or replace it.
bool Claim(PassingName& at, uint64_t* old, [[maybe_unused]] uint32_t holders) {
  *old = at.name.load();
  if (*old == kClaimed || !at.name.compare_exchange_strong(*old, kClaimed)) return false;
#if !defined(PFS_BREAK_PASSING_NAMES)  // negative control of the stress test: a held name is replaced
  if (at.holders.load() != holders) {
    at.name.store(*old);
    return false;
  }
#endif
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

namespace {

// acquire(), release(): of names, under the cold lock or without it.
template <typename Acquire, typename Release>
uint32_t Add(std::string_view name, uint32_t hash, uint64_t* word, Acquire acquire, Release release) {
  PassingName& at = At(PlaceOf(hash));
  uint64_t old = 0;
  if (!Claim(at, &old, 0)) return 0;
  *word = acquire(name);
  if (*word == 0) {
    at.name.store(old);
    return 0;
  }
  release(static_cast<uint32_t>(old));
  at.holders.fetch_add(1);
  Fill(at, *word, hash);
  return PlaceOf(hash);
}

}  // namespace

uint32_t AddPassingName(std::string_view name, uint32_t hash, uint64_t* word) {
  return Add(name, hash, word, AcquireNameWord, ReleaseName);
}

uint32_t AddPassingName(std::string_view name, uint32_t hash, uint64_t* word, NameStash& names) {
  return Add(
      name, hash, word, [&](std::string_view text) { return names.AcquireWord(text); }, [&](uint32_t granule) { names.Release(granule); });
}

void LeavePassingName(uint64_t word, uint32_t hash) {
  PassingName& at = At(PlaceOf(hash));
  uint64_t unused = 0;
  if (Claim(at, &unused, 0)) {
    Fill(at, word, hash);
  } else {
    unused = word;
  }
  ReleaseName(static_cast<uint32_t>(unused));
}

uint64_t TakePassingName(uint32_t place) {
  PassingName& at = At(place);
  uint64_t word = 0;
  if (Claim(at, &word, 1)) {
    at.name.store(0);
  } else {
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
    if (at.name.load(kRelaxed) == kClaimed) at.name.store(0, kRelaxed);
  }
}

}  // namespace perfschema
