// capi/process.cpp: functions that are no probes: start, version, errors, registration, names of descriptors.
//
// Everything here is cold.
#include <cstring>
#include <string>
#include <string_view>

#include "capi/guarded.h"
#include "record/engine/runtime.h"
#include "record/family/file_name.h"
#include "record/family/files.h"
#include "record/family/sockets.h"
#include "setup/ceiling.h"
#include "setup/setup.h"

using perfschema::Code;
using perfschema::Family;
using perfschema::Status;
using perfschema::capi::Fail;
using perfschema::capi::Guarded;

namespace {

#ifdef PFS_VERSION_TEXT
static_assert(std::string_view(PFS_VERSION_TEXT) == PFS_VERSION, "project(VERSION) of CMakeLists.txt and PFS_VERSION of pfs.h differ");
#endif

#define PFS_SAME_(code, error) static_assert(static_cast<int>(Code::code) == error)
PFS_SAME_(kOk, PFS_OK);
PFS_SAME_(kInvalidArgument, PFS_E_INVALID_ARGUMENT);
PFS_SAME_(kNotFound, PFS_E_NOT_FOUND);
PFS_SAME_(kNotAllowed, PFS_E_NOT_ALLOWED);
PFS_SAME_(kExists, PFS_E_EXISTS);
PFS_SAME_(kFull, PFS_E_FULL);
PFS_SAME_(kState, PFS_E_STATE);
PFS_SAME_(kIo, PFS_E_IO);
PFS_SAME_(kCorrupt, PFS_E_CORRUPT);
#undef PFS_SAME_

// Plain bytes: no destructor at the end of a thread, and no allocation.
thread_local char t_last_error[512];

Status KindOfRwlock(uint32_t flags, Family* family) {
  const bool prefers_writers = (flags & PFS_RWLOCK_PR) != 0, is_sxlock = (flags & PFS_RWLOCK_SX) != 0;
  if (prefers_writers && is_sxlock)
    return Status(Code::kInvalidArgument, "PFS_RWLOCK_PR or PFS_RWLOCK_SX: a lock is one of them, not both");
  *family = is_sxlock ? Family::kSxlock : prefers_writers ? Family::kPrlock : Family::kRwlock;
  return {};
}

// Registers one instrument. family_of(flags, &family) maps the flags to a family.
template <typename FamilyOf>
Status RegisterOne(FamilyOf family_of, const char* component, const pfs_instrument_info& info) {
  if (info.key == nullptr || info.name == nullptr)
    return Status(Code::kInvalidArgument, "an instrument needs a place for its key and a name");
  const uint32_t volatility = info.flags >> PFS_VOLATILITY_SHIFT;
  const uint32_t flags = info.flags & ((1u << PFS_VOLATILITY_SHIFT) - 1);
  const std::string_view documentation = info.documentation != nullptr ? info.documentation : "";
  Family family{};
  if (Status bad = family_of(flags, &family); !bad.ok()) return bad;
  return perfschema::RegisterInstrument(family, component, info.name, flags, volatility, documentation, info.key);
}

template <typename FamilyOf>
int Register(FamilyOf family, const char* component, pfs_instrument_info* info, int count) {
  if (count < 0 || (info == nullptr && count > 0)) return Fail(PFS_E_INVALID_ARGUMENT, "pfs_register_...: no instruments given");
  int first_error = PFS_OK;
  std::string_view first_message;
  char kept[sizeof t_last_error];
  for (int i = 0; i < count; ++i) {
    if (info[i].key != nullptr) *info[i].key = 0;
    const int code = Guarded([&] {
      return component != nullptr ? RegisterOne(family, component, info[i])
                                  : Status(Code::kInvalidArgument, "an instrument needs a component");
    });
    if (code == PFS_OK) continue;
    if (info[i].key != nullptr) *info[i].key = 0;
    if (first_error != PFS_OK) continue;
    first_error = code;
    first_message = std::strcpy(kept, t_last_error);
  }
  return first_error != PFS_OK ? Fail(first_error, first_message) : PFS_OK;
}

}  // namespace

int perfschema::capi::Fail(int code, std::string_view message) {
  const size_t length = message.size() < sizeof t_last_error ? message.size() : sizeof t_last_error - 1;
  std::memcpy(t_last_error, message.data(), length);
  t_last_error[length] = '\0';
  return code;
}

int perfschema::capi::RegisterFamily(Family family, const char* component, pfs_instrument_info* info, int count) {
  const auto only = [=](uint32_t, Family* of) {
    *of = family;
    return Status();
  };
  return Register(only, component, info, count);
}

extern "C" {

int pfs_init(const char* options) {
  return Guarded([=] { return perfschema::InitRuntime(options != nullptr ? options : ""); });
}

int pfs_set_overhead_limit(double percent) {
  return Guarded([=] {
    if (!(percent >= 0 && percent <= 100)) return Status(perfschema::Code::kInvalidArgument, "a limit is a percentage from 0 to 100");
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): it is not negative, and std::lround() would need libm
    return perfschema::UpdateCeiling(static_cast<uint64_t>(percent * 10'000 + 0.5), std::nullopt);
  });
}

int pfs_is_on(void) {
  int on = 0;
  Guarded([&] { return on = perfschema::EnsureStarted() ? 1 : 0, Status(); });
  return on;
}

const char* pfs_version(void) { return PFS_VERSION; }

const char* pfs_segment_path(void) {
  const char* path = "";
  Guarded([&] {
    if (perfschema::EnsureStarted()) path = perfschema::OwnSegmentState().path();
    return Status();
  });
  return path;
}

const char* pfs_last_error(void) { return t_last_error; }

int pfs_register_mutex(const char* component, pfs_mutex_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(Family::kMutex, component, info, count);
}

int pfs_register_rwlock(const char* component, pfs_rwlock_info_t* info, int count) {
  return Register(KindOfRwlock, component, info, count);
}

int pfs_register_cond(const char* component, pfs_cond_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(Family::kCond, component, info, count);
}

int pfs_register_wait(const char* component, pfs_cond_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(Family::kOwnWait, component, info, count);
}

int pfs_register_file(const char* component, pfs_file_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(Family::kFile, component, info, count);
}

int pfs_register_socket(const char* component, pfs_socket_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(Family::kSocket, component, info, count);
}

int pfs_register_thread(const char* component, pfs_thread_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(Family::kThread, component, info, count);
}

int pfs_file_bind(pfs_key_t key, int fd, const char* name) {
  if (key == 0 || fd < 0 || name == nullptr || name[0] == '\0') {
    return Fail(PFS_E_INVALID_ARGUMENT, "pfs_file_bind: a registered key, an open descriptor and a name are needed");
  }
  return Guarded([=] {
    if (perfschema::BindFile(key, fd, perfschema::FileName(name).view())) return Status();
    return Status(Code::kState,
                  "pfs_file_bind: the descriptor stays without a name: unknown key, instrument off, the table is full, or pfs is off");
  });
}

void pfs_file_unbind(int fd) {
  if (fd >= 0) Guarded([=] { return perfschema::UnbindFile(fd), Status(); });
}

int pfs_socket_bind(pfs_key_t key, int fd) {
  using perfschema::SocketBinding;
  if (key == 0 || fd < 0) return Fail(PFS_E_INVALID_ARGUMENT, "pfs_socket_bind: a registered key and an open socket are needed");
  return Guarded([=] {
    const uint32_t class_index = perfschema::ClassOfSocketKey(key);
    const SocketBinding done = class_index != 0 ? perfschema::BindSocket(class_index, fd) : SocketBinding::kFull;
    if (done == SocketBinding::kNotASocket) return Status(Code::kInvalidArgument, "pfs_socket_bind: the descriptor is no open socket");
    if (done == SocketBinding::kDone) return Status();
    return Status(Code::kState, "pfs_socket_bind: the socket is not instrumented: unknown key, the table is full, or pfs is off");
  });
}

void pfs_socket_unbind(int fd) { pfs_file_unbind(fd); }

}  // extern "C"
