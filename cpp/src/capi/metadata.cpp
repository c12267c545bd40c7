// capi/metadata.cpp: metadata locks, and idle.
#include "record/family/metadata.h"

#include <new>
#include <string_view>

#include "capi/texts.h"
#include "perfschema/server.h"

using perfschema::ShmMetadataLock;
using perfschema::Wait;
using perfschema::capi::TextOf;

namespace {

static_assert(sizeof(Wait) <= sizeof(pfs_wait_t::opaque));

ShmMetadataLock* AsLock(pfs_metadata_lock_t* lock) { return reinterpret_cast<ShmMetadataLock*>(lock); }

// begin(Wait&) starts the wait.
template <typename Begin>
int BeginIn(pfs_wait_t* wait, Begin begin) {
  wait->instance = nullptr;
  if (!begin(*new (wait->opaque) Wait)) return 0;
  wait->instance = reinterpret_cast<pfs_instance_t*>(wait);  // not NULL: the wait has an end
  return 1;
}

// Returns the wait that ends. A second end does nothing.
const Wait& EndingIn(pfs_wait_t* wait) {
  wait->instance = nullptr;
  return *std::launder(reinterpret_cast<Wait*>(wait->opaque));
}

void Change(pfs_metadata_lock_t* lock, uint32_t shift, uint32_t value, uint32_t most) {
  if (lock != nullptr && value <= most) ChangeMetadataLock(*AsLock(lock), shift, value);
}

}  // namespace

extern "C" {

pfs_metadata_lock_t* pfs_metadata_lock_create_at(const void* identity, enum pfs_object_type type, const char* schema, const char* name,
                                                 const char* column, enum pfs_metadata_type lock_type, enum pfs_metadata_duration duration,
                                                 enum pfs_metadata_status status, PFS_SITE_) {
  const auto object = static_cast<uint32_t>(type);
  if (object == 0 || object >= std::size(perfschema::kObjectTypeNames) || static_cast<uint32_t>(lock_type) > PFS_METADATA_EXCLUSIVE ||
      static_cast<uint32_t>(duration) > PFS_METADATA_EXPLICIT || static_cast<uint32_t>(status) > PFS_METADATA_POST_RELEASE_NOTIFY) {
    return nullptr;
  }
  const uint32_t state = perfschema::MetadataState(static_cast<perfschema::ObjectType>(type), lock_type, duration, status);
  return reinterpret_cast<pfs_metadata_lock_t*>(perfschema::CreateMetadataLock(reinterpret_cast<uintptr_t>(identity), state, TextOf(schema),
                                                                               TextOf(name), TextOf(column), file, line));
}

void pfs_metadata_lock_set_type(pfs_metadata_lock_t* lock, enum pfs_metadata_type lock_type) {
  Change(lock, perfschema::kMetadataTypeShift, lock_type, PFS_METADATA_EXCLUSIVE);
}

void pfs_metadata_lock_set_duration(pfs_metadata_lock_t* lock, enum pfs_metadata_duration duration) {
  Change(lock, perfschema::kMetadataDurationShift, duration, PFS_METADATA_EXPLICIT);
}

void pfs_metadata_lock_set_status(pfs_metadata_lock_t* lock, enum pfs_metadata_status status) {
  Change(lock, perfschema::kMetadataStatusShift, status, PFS_METADATA_POST_RELEASE_NOTIFY);
}

void pfs_metadata_lock_destroy(pfs_metadata_lock_t* lock) {
  if (lock != nullptr) perfschema::DestroyMetadataLock(AsLock(lock));
}

int pfs_metadata_wait_begin_(pfs_wait_t* wait, pfs_metadata_lock_t* lock, PFS_SITE_) {
  return BeginIn(wait, [&](Wait& begun) { return perfschema::BeginMetadataWait(begun, *AsLock(lock), file, line); });
}

void pfs_metadata_wait_end_(pfs_wait_t* wait, int rc) {
  (void)rc;
  EndMetadataWait(EndingIn(wait));
}

int pfs_idle_begin_at(pfs_wait_t* wait, PFS_SITE_) {
  return BeginIn(wait, [&](Wait& begun) { return perfschema::BeginIdle(begun, file, line); });
}

void pfs_idle_end_(pfs_wait_t* wait) { EndIdle(EndingIn(wait)); }

}  // extern "C"
