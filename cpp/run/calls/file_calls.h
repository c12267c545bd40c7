// run/calls/file_calls.h: makes the event of a call on a file around the real call. The C API's wrappers do the same for a key that they
// are given.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include "capi/call.h"
#include "capi/name_below.h"
#include "record/engine/classes.h"
#include "run/calls/descriptors.h"
#include "run/loader/real.h"
#include "run/protocols/conversations.h"

namespace perfschema::run {

// Returns whether events of an instrument of files are recorded. REQUIRES: it is registered.
inline bool IsOn(pfs_key_t key) {
  const uint32_t class_index = ClassOfKey(Family::kFile, key);
  return class_index != 0 && (g_runtime.classes[class_index].flags.load(kRelaxed) & kFlagEnabled) != 0;
}

inline capi::Site SiteAt(const void* caller) { return {static_cast<const char*>(caller), kIsCode}; }

// ---- By descriptor -----------------------------------------------------------------------------------------------------------------

// Returns the place of a call on a descriptor, which is known from here on.
inline capi::Site KnownSite(int fd, const void* caller) {
  MakeKnown(fd, caller);
  return SiteAt(caller);
}

template <typename Call>
auto Closed(int fd, const void* caller, Call call) {
  ForgetAdopted(fd);  // before: another thread may get the number as soon as it is free
  if (IsDecoding()) EndConversation(fd);
  return capi::Close(fd, SiteAt(caller), call);
}

// Says that a descriptor is a new file's, of which nothing is known. Files without a name have the one that the kernel gives them, from
// their first use on. Returns it.
inline int IsFresh(int fd) {
  if (fd < 0 || IsPlain()) return fd;
  if (FileOfDescriptor(fd) != nullptr) UnbindFile(fd);
  ForgetAdopted(fd);
  return fd;
}

// ---- By name -------------------------------------------------------------------------------------------------------------------------

// Begins the event of a call on a name that is known. Returns false for others. REQUIRES: the name may be read.
inline bool BeginsOnKnownName(NamedFileWait* wait, Operation operation, const char* path, uint64_t state_bits, int flags,
                              const void* caller) {
  const char* const site = SiteAt(caller).file;
  const uint32_t class_index = FindKnownName(wait, path, site);
  return class_index != 0 && BeginOnKnownName(wait, class_index, operation, state_bits, static_cast<uint32_t>(flags), site, kIsCode);
}

// Makes an open.
template <typename Call>
int Opened(Operation operation, int directory, const char* path, int flags, bool is_temporary, const void* caller, Call call) {
  if (IsPlain()) return static_cast<int>(call());
  const bool is_readable = IsReadable(path);
  const auto descriptor = [](auto fd) { return static_cast<int>(fd); };
  NamedFileWait wait;
  if (is_readable && !is_temporary && BeginsOnKnownName(&wait, operation, path, kRecordHasFlags, flags, caller)) {
    const auto fd = static_cast<int>(capi::OpenAs(&wait, true, path, false, call, descriptor));
    if (fd >= 0) ForgetAdopted(fd);
    return fd;
  }
  const pfs_key_t key = KeyOfFile(path, is_readable, *SiteOf(caller));
  const auto open = [=](const char* name) {
    return static_cast<int>(capi::Open(key, operation, name, flags, is_temporary, SiteAt(caller), call, descriptor, is_readable));
  };
  const bool is_on = key != 0 && IsOn(key);
  const int fd = directory == AT_FDCWD || !is_on ? open(path) : capi::WithNameBelow(directory, path, open);
  if (fd >= 0) is_on ? ForgetAdopted(fd) : LeaveAlone(fd);
  return fd;
}

template <typename Call>
int OpenedByName(int directory, const char* path, int flags, const void* caller, Call call) {
  if (__builtin_expect(static_cast<int>((flags & O_TMPFILE) == O_TMPFILE), 0) == 0) {
    return Opened(Operation::kOpen, directory, path, flags, false, caller, call);
  }
  return capi::WithTemporaryName(path,
                                 [=](const char* name) { return Opened(Operation::kOpen, directory, name, flags, true, caller, call); });
}

// Makes another call on a name. `end(wait, name, rc)` ends the event; `wait` is nullptr if there is none.
template <typename Call, typename End>
int OnName(Operation operation, int directory, const char* path, const void* caller, Call call, End end) {
  if (IsPlain()) return static_cast<int>(call());
  const bool is_readable = IsReadable(path);
  NamedFileWait wait;
  if (is_readable && BeginsOnKnownName(&wait, operation, path, 0, 0, caller)) {
    return capi::OnNameAs(
        &wait, true, [=] { return static_cast<int>(call()); }, [=](NamedFileWait* begun, int rc) { end(begun, path, rc); });
  }
  const pfs_key_t key = KeyOfFile(path, is_readable, *SiteOf(caller));
  const auto make = [=](const char* name) {
    return capi::OnName(
        key, operation, name, SiteAt(caller), [=] { return static_cast<int>(call()); },
        [=](NamedFileWait* wait, int rc) { end(wait, name, rc); }, is_readable);
  };
  // A name that goes or changes may be that of a file that was known before its instrument was disabled.
  const bool is_of_file = (operation == Operation::kDelete || operation == Operation::kRename) && KnowsFiles();
  const bool needs_name = key != 0 && (is_of_file || IsOn(key));
  return directory == AT_FDCWD || !needs_name ? make(path) : capi::WithNameBelow(directory, path, make);
}

// Asks for a file by its name, or by its descriptor if the path is empty and the flags allow that.
template <typename Call>
int StatByName(int flags, int directory, const char* path, const void* caller, Call call) {
  if ((flags & AT_EMPTY_PATH) == 0 || IsPlain() || !IsReadable(path) || path[0] != 0) {
    return OnName(Operation::kStat, directory, path, caller, call, capi::EndName);
  }
  return static_cast<int>(capi::SeldomPlain(directory, Operation::kStat, capi::kNoOffset, KnownSite(directory, caller), call));
}

// Makes a call that renames a file.
template <typename Call>
int Renamed(int from_directory, const char* from, int to_directory, const char* to, const void* caller, Call call) {
  const auto rename = [=](const char* name) {
    const auto end = [=](NamedFileWait* wait, const char* old, int rc) { EndFileRename(wait, old, name, rc); };
    return capi::IsNull(to) ? call() : OnName(Operation::kRename, from_directory, from, caller, call, end);
  };
  return to_directory == AT_FDCWD || IsPlain() || !KnowsFiles() ? rename(to) : capi::WithNameBelow(to_directory, to, rename);
}

// Locks a file, or a part of it. The event is one of the file.
template <typename Call>
int LockedFile(int fd, bool waits, const void* caller, Call call) {
  if (!waits || IsPlain()) return call();
  return capi::SeldomPlain(fd, Operation::kFileLock, capi::kNoOffset, KnownSite(fd, caller), call);
}

}  // namespace perfschema::run
