// record/sources.h: SOURCE: call sites, interned once each.
#pragma once

#include <cstdint>

#include "record/runtime.h"

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

  uint32_t Find(const char* file, uint32_t line) {
    const auto hash = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(file) >> 4) ^ line;
    Entry& entry = entries[hash & (kEntries - 1)];
    if (__builtin_expect(entry.file == file && entry.line == line, 1)) return entry.source;
    if (file == nullptr) return 0;
    const uint32_t source = InternSource(file, line);
    entry = {file, line, source};
    return source;
  }
};

}  // namespace perfschema
