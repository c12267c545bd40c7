// record/family/file_index.h: files by their names: FILE_NAME, or a beginning, a hash and an end of it (record/family/file_name.h).
//
// The index is in private memory and allocates nothing: open() is legal in a signal handler, and so is pfs_open().
#pragma once

#include <cstddef>
#include <string_view>

#include "record/engine/runtime.h"

namespace perfschema {

// The table has 16 pages, which a program with some hundred files touches all. Chains are short up to some ten thousand files.
inline constexpr uint32_t kFileBuckets = 1u << 14;
inline constexpr size_t kFileIndexBytes = kFileBuckets * sizeof(HalfWord);
// `memory`: zeros. Once.
void StartFileIndex(void* memory);

// Returns ShmFile::hash of a name; the second one is for callers that have its HashByWords().
uint32_t HashName(std::string_view name);
constexpr uint32_t NameHash(uint64_t by_words) { return static_cast<uint32_t>(by_words >> 32); }

// REQUIRES: cold lock, for these three.
ShmFile* FindByName(std::string_view name, uint32_t hash);
// Adds a file that has its hash. Returns nullptr, or the file that another thread has added under the same name since the caller searched.
ShmFile* AddToBucket(ShmFile& file, std::string_view name);
void TakeFromBucket(ShmFile& file);

// Adds a file that has its hash, if there is none of that name. Returns false if it has not been added: there may be one. `is_sure`: no
// other thread has changed the index meanwhile; else FindSecond() may find one. REQUIRES: lock-free path (record/engine/free_lists.h).
bool AddToBucketWithoutLock(ShmFile& file, std::string_view name, bool* is_sure);
// Returns a file of that name that was there before `file`, or nullptr. REQUIRES: cold lock; `file` is in the index.
ShmFile* FindSecond(const ShmFile& file, std::string_view name);

// Returns the file of that name, and its name's word, or nullptr: then FindByName() may still find it. Needs no lock: a chain that changes
// meanwhile leads to files of other names, or in a circle.
ShmFile* FindWithoutLock(std::string_view name, uint32_t hash, uint64_t* word);
// Returns whether no file has that name. Needs no lock: where the index changes meanwhile, or a chain is long, it is false.
bool IsNoFile(std::string_view name, uint32_t hash);

}  // namespace perfschema
