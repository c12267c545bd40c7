// record/family/metadata.h: metadata locks, from request to release, and waits for them; idle, which waits for nothing that is known.
#pragma once

#include <string_view>

#include "record/probe/fast_path.h"

namespace perfschema {

// What metadata_locks shows of a lock besides its name, in one word.
inline constexpr uint32_t kMetadataTypeShift = 8, kMetadataDurationShift = 16, kMetadataStatusShift = 24;
constexpr uint32_t MetadataState(ObjectType type, uint32_t lock_type, uint32_t duration, uint32_t status) {
  return static_cast<uint32_t>(type) | lock_type << kMetadataTypeShift | duration << kMetadataDurationShift |
         status << kMetadataStatusShift;
}

// Makes a row, asked for by the calling thread. Returns nullptr if the instrument or pfs is off, or if the array is full, which is counted.
// Preserves errno. Cold.
ShmMetadataLock* CreateMetadataLock(uint64_t identity, uint32_t state, std::string_view schema, std::string_view name,
                                    std::string_view column, const char* file, uint32_t line);
void DestroyMetadataLock(ShmMetadataLock* lock);
// Changes the byte of the state that begins at bit `shift`.
void ChangeMetadataLock(ShmMetadataLock& lock, uint32_t shift, uint32_t value);

// Computes the flag words of all metadata locks after a change of the setup. REQUIRES: cold lock.
void RefreshMetadataLocks();

bool BeginMetadataWait(Wait& wait, const ShmMetadataLock& lock, const char* file, uint32_t line);
bool BeginIdle(Wait& wait, const char* file, uint32_t line);
// Counts a poll that did not wait and found nothing. It is no event.
void CountEmptyPoll(const char* file, uint32_t line);
// These do nothing, and count a loss, if another instrumentation is attached to the calling thread than at the begin.
void EndMetadataWait(const Wait& wait);
void EndIdle(const Wait& wait);

}  // namespace perfschema
