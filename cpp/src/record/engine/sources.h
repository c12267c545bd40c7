// record/engine/sources.h: interns call sites (the SOURCE columns).
#pragma once

#include <atomic>
#include <cstdint>

#include "record/engine/runtime.h"

namespace perfschema {

// Makes the private tables. Called once under the cold lock.
bool StartSources();

// Reserved values of `line`. kWholePlace: `file` is the whole text. kIsCode: `file` is an address in the program's code, whose text
// g_text_of_code() returns: a probe need not look it up.
inline constexpr uint32_t kWholePlace = 0, kIsCode = ~uint32_t{0};
extern const char* (*g_text_of_code)(const void* address)PFS_HIDDEN;

// Returns the index into kSources of "basename(file):line", or 0 if the array is full. Cold.
[[gnu::noinline]] uint32_t InternSource(const char* file, uint32_t line);

// The call site of a user. `file` is nullptr: there is none.
struct UserSite {
  const char* file;
  uint32_t line;
};
// Returns the call site of the user for whom code at `address` makes a call: an interpreter, a library of streams. `is_first`: the thread
// has not asked for this address before. Stores whether to ask again. nullptr: all code is the user's.
extern UserSite (*g_user_of_code)(const void* address, bool is_first, bool* ask_again) PFS_HIDDEN;

// Changes an entry of a cache of the thread's own. It is empty meanwhile: a signal handler may come between the stores, and leave with a
// longjmp.
template <typename Key, typename Store>
void ChangeEntry(Key& its_key, Key empty, Key key, Store store) {
  its_key = empty;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  store();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  its_key = key;
}

// A small per-thread cache in front of InternSource(). The address of the file name stands for the name: literals
// live as long as their code.
// Threads: owner thread.
struct SourceCache {
  static constexpr uint32_t kEntries = 128;
  struct Entry {
    const char* file;
    uint32_t line;
    uint32_t source;
  } entries[kEntries];

  // Returns the only entry that can hold the call site: the low address bits, moved on by lines. It takes as few
  // instructions as possible: one multiplication, where the compiler makes two of a factor with few bits. The factor is
  // odd, so the lines of a file have places of their own.
  Entry& PlaceOf(const char* file, uint32_t line) {
    constexpr uint32_t kMask = (kEntries - 1) * sizeof(Entry), kStep = 43 * sizeof(Entry);
    const uint32_t offset = (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(file)) + line * kStep) & kMask;
    return *reinterpret_cast<Entry*>(reinterpret_cast<char*>(entries) + offset);
  }
  static bool IsOf(const Entry& entry, const char* file, uint32_t line) { return entry.file == file && entry.line == line; }

  uint32_t Find(const char* file, uint32_t line) {
    Entry& entry = PlaceOf(file, line);
    if (__builtin_expect(IsOf(entry, file, line), 1)) return entry.source;
    return file != nullptr ? FindNew(entry, file, line) : 0;
  }

  // Places in code that may call for a user. Some of their events have the call site of the user: the first one, and others less and less
  // often, down to one in kMostChunks chunks of records. To look for a user takes microseconds.
  static constexpr uint32_t kBorrowed = 16, kMostChunks = 8;
  struct Borrowed {
    const char* address;     // the last one that came to this entry
    uint8_t distance, left;  // in chunks; 0 left: the next event
  } borrowed[kBorrowed];
  bool has_borrowed;  // may be true without one that is left: most threads have none

  // Notes that the thread has begun a chunk of records.
  void NoteChunk() {
    if (__builtin_expect(has_borrowed, 0)) CountDown();
  }
  // Lets the next event of each place look for its user.
  void Forget() {
    for (Entry& entry : entries) entry.file = nullptr;
  }

 private:
  [[gnu::noinline, gnu::cold]] uint32_t FindNew(Entry& entry, const char* file, uint32_t line);
  UserSite UserOf(const char* address);
  [[gnu::noinline, gnu::cold]] void CountDown();
};

}  // namespace perfschema
