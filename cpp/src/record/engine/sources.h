// record/engine/sources.h: SOURCE: call sites, interned once each.
#pragma once

#include <cstdint>

#include "record/engine/runtime.h"

namespace perfschema {

// Private tables. Under the cold lock, once.
bool StartSources();

// Index into kSources of "basename(file):line", 0 if there is no room. Cold.
[[gnu::noinline]] uint32_t InternSource(const char* file, uint32_t line);

// A small per-thread cache in front of InternSource. The address of the file's name stands for the name: literals live as long as their code.
// Threads: owner thread.
struct SourceCache {
  static constexpr uint32_t kEntries = 128;
  struct Entry {
    const char* file;
    uint32_t line;
    uint32_t source;
  } entries[kEntries];

  // Where it is if it is there: the place of its low address bits, moved on by lines. As few instructions as can be.
  Entry& PlaceOf(const char* file, uint32_t line) {
    constexpr uint32_t kMask = (kEntries - 1) * sizeof(Entry);
    const uint32_t offset = (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(file)) + line * static_cast<uint32_t>(sizeof(Entry))) & kMask;
    return *reinterpret_cast<Entry*>(reinterpret_cast<char*>(entries) + offset);
  }
  static bool IsOf(const Entry& entry, const char* file, uint32_t line) { return entry.file == file && entry.line == line; }

  uint32_t Find(const char* file, uint32_t line) {
    Entry& entry = PlaceOf(file, line);
    if (__builtin_expect(IsOf(entry, file, line), 1)) return entry.source;
    if (file == nullptr) return 0;
    const uint32_t source = InternSource(file, line);
    entry = {file, line, source};
    return source;
  }
};

}  // namespace perfschema
