// record/family/file_calls.cpp: the events of calls after which there is another file, or another name: open, close, stat, rename ...
#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "record/engine/classes.h"
#include "record/engine/free_lists.h"
#include "record/engine/names.h"
#include "record/engine/no_signals.h"
#include "record/family/file_events.h"
#include "record/family/file_index.h"
#include "record/family/file_name.h"
#include "record/family/passing_names.h"

namespace perfschema {
namespace {

// The hooks of the fast path for the begin of a call whose object is known by class only.
struct CallBegin {
  static constexpr uintptr_t kPlaces = kPlacesWithDetails;

  uint32_t class_of_file;
  Operation called;
  const WaitDetails& details;

  PFS_ALWAYS_INLINE Operation operation() const { return called; }
  PFS_ALWAYS_INLINE uint32_t class_index() const { return class_of_file; }
  PFS_ALWAYS_INLINE uint64_t object() const { return 0; }
  PFS_ALWAYS_INLINE uint64_t WriteDetails(ThreadState& thread, ShmWaitRecord& record) const {
    perfschema::WriteDetails(thread, record, details);
    return details.state_bits;
  }
};

// The hooks for the end of a call on a file that is known by then.
struct KnownFileEnd : FileHooks {
  PFS_ALWAYS_INLINE void WriteEnd(ShmWaitRecord& record) const {
    record.object.store(ObjectOf(file, -1), kRelease);  // pairs with EventReader::CopyChunk
  }
};

// Begin waits that are recorded but not timed. Functions of their own, as EndOther(): other settings keep their registers.
[[gnu::noinline]] bool BeginUntimed(FileWait* call, uint32_t class_index, const WaitDetails& details, uint32_t flags,
                                    const char* source_file, uint32_t line) {
  return FastBegin<Untimed>(call->wait, CallBegin{class_index, call->operation, details}, flags, source_file, line);
}
[[gnu::noinline]] bool BeginUntimed(FileWait* call, int64_t requested_bytes, uint32_t flags, const char* source_file, uint32_t line) {
  ShmFile& file = *call->file;
  const FileHooks hooks{file, call->operation, requested_bytes, -1, file.class_index.load(kRelaxed), call->version};
  return FastBegin<Untimed>(call->wait, hooks, flags, source_file, line);
}

// Counts a call on a name that failed. A call that has the name has read it. REQUIRES: as CountFailedWait().
void CountFailedCall(const NamedFileWait& call, const char* path, const EndedWait& ended, int error) {
  const bool is_readable = (call.is_readable || call.name != 0) && error != EFAULT;
  CountFailedWait(call.wait, call.operation, ended, error, is_readable ? path : nullptr);
}

KnownFileEnd EndOf(const FileWait& call) { return {{*call.file, call.operation, -1, -1, call.wait.class_index, call.version}}; }
[[gnu::noinline]] bool EndOther(const FileWait& call, uint64_t end_ticks) { return EndBySettings(call.wait, EndOf(call), end_ticks); }

// Ends the event of a call that leads to a known file. find() sets call.file after the timer is read, and returns whether the event has
// the class and the name of that file from its begin on. finish(ended) does what the fast path cannot, inside the probe.
template <typename Find, typename Finish>
void EndOnKnown(const FileWait& call, Find find, Finish finish) {
  const bool is_fast = MayEndFast(call.wait), is_unsampled = call.wait.flags == kUnsampledFlags && MayEndUnrecorded(call.wait);
  const uint64_t end_ticks = is_fast ? ReadCycle() : is_unsampled ? 0 : ReadAtEnd(call.wait);
  if (find()) {
    if (is_fast        ? FastEnd(call.wait, EndOf(call), end_ticks)
        : is_unsampled ? UnrecordedEnd<Counting::kCounted>(call.wait, UnsampledEnd<KnownFileEnd>{EndOf(call)}, 0)
                       : EndOther(call, end_ticks)) {
      return;
    }
  } else {
    EnterProbe(*call.wait.thread);
  }
  finish(EndedBy(call.wait, end_ticks));
}

}  // namespace

bool BeginOnClass(FileWait* call, uint32_t class_index, Operation operation, const WaitDetails& details, const char* source_file,
                  uint32_t line) {
  const uint32_t flags = g_runtime.classes[class_index].flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return false;
  call->file = nullptr;
  call->operation = operation;
  if (IsAllOn(flags, flags & kFlagSocket)) {
    if (FastBegin(call->wait, CallBegin{class_index, operation, details}, flags, source_file, line)) return true;
  } else if (BeginUnrecorded(call->wait, flags, class_index)) {
    return true;
  } else if (IsUntimed(flags & ~kFlagSocket)) {
    if (BeginUntimed(call, class_index, details, flags, source_file, line)) return true;
  }
  return BeginWait<true>(call->wait, flags, class_index, operation, 0, source_file, line, details);
}

void NameRecord(FileWait& call, const ShmFile* file, uint64_t* more_state_bits) {
  if (file == nullptr) return;
  if (const uint32_t class_index = file->class_index.load(kRelaxed); class_index != 0) call.wait.class_index = class_index;
  ShmWaitRecord* record = call.wait.record;
  if (record == nullptr) return;
  if (record->state.load(kRelaxed) != call.wait.begun_state) return;
  // Release, as in WriteBegin: pairs with EventReader::CopyChunk.
  record->what.store((record->what.load(kRelaxed) & ~uint64_t{0xffff}) | call.wait.class_index, kRelease);
  record->object.store(reinterpret_cast<uintptr_t>(file) - reinterpret_cast<uintptr_t>(g_runtime.header), kRelease);
  const uint64_t name = file->name.load(kRelaxed);
  if (name == 0) return;
  ShmWaitDetails& details = record->details();
  details.flags_and_name.store((details.flags_and_name.load(kRelaxed) & 0xffffffffu) | name << 32, kRelease);
  details.version_and_type.store(name >> 32, kRelease);
  *more_state_bits |= kRecordHasName;
}

namespace {

// REQUIRES: cold lock.
void ReleaseOwnName(NamedFileWait* call) { ReleaseName(NameOf(std::exchange(call->own_name, 0))); }

// Releases a name that no file has taken.
void ReleaseUnusedName(NamedFileWait* call) {
  if (call->passing != 0) LetPassingNameGo(std::exchange(call->passing, 0));
  if (call->own_name == 0) return;
  if (ColdLock lock; lock) ReleaseOwnName(call);
}

PFS_ALWAYS_INLINE bool BeginOnName(NamedFileWait* call, uint32_t class_index, Operation operation, uint64_t state_bits, uint32_t open_flags,
                                   const char* source_file, uint32_t line) {
  const WaitDetails details{state_bits, 0, call->name << 32 | open_flags, call->name >> 32};
  if (BeginOnClass(call, class_index, operation, details, source_file, line)) return true;
  ReleaseUnusedName(call);
  return false;
}

}  // namespace

bool BeginOnKnownName(NamedFileWait* call, uint32_t class_index, Operation operation, uint64_t state_bits, uint32_t open_flags,
                      const char* source_file, uint32_t line) {
  return BeginOnName(call, class_index, operation, state_bits | kRecordHasName, open_flags, source_file, line);
}

namespace {

// Gives the call a name that no file has, from the names that the thread has in advance. Returns false if it cannot.
bool TakeNameWithoutLock(NamedFileWait* call, std::string_view name, uint32_t hash) {
  ThreadLocals& self = t_locals;
  ShmFreeLists* const own = self.free_lists;
  if (own == nullptr || self.state == nullptr || self.in_cold_lock) return false;
  NameStash& names = self.state->names;
  const OnLockFreePath on(self, *own);
  LightBarrier(*own);
  if (OnLockFreePath::IsClosed() || !names.MayReplace(name.size()) || !IsNoFile(name, hash)) return false;
  call->passing = AddPassingName(name, hash, &call->name, names);
  if (call->passing == 0) call->name = call->own_name = names.AcquireWord(name);
  return true;
}

// Finds the file of the name before the call is made, which may block for long. Where the event is recorded, a name of no file becomes
// known: the program may read it at any time, also if the system refuses the call. All of this happens before the timer is read. Not
// inlined: a call on a name that is known needs none of its registers.
[[gnu::noinline]] void FindName(NamedFileWait* call, uint32_t class_index, const char* path) {
  if (path == nullptr || (!call->is_readable && !IsReadable(path))) return;
  const bool is_shown = (g_runtime.classes[class_index].flags.load(kRelaxed) & kFlagCurrent) != 0;
  const int error = errno;
  const FileName name(path);
  const uint32_t hash = HashName(name.view());
  call->is_readable = true;
  call->named = FindWithoutLock(name.view(), hash, &call->name);
  if (call->named == nullptr) {
    call->name = 0;
    call->passing = is_shown ? HoldPassingName(name.view(), hash, &call->name) : 0;
  }
  if (is_shown && call->named == nullptr && call->passing == 0 && !TakeNameWithoutLock(call, name.view(), hash)) {
    call->name = 0;
    if (ColdLock lock; lock) {
      call->named = FindByName(name.view(), hash);
      if (call->named != nullptr) {
        call->name = call->named->name.load(kRelaxed);
      } else {
        call->passing = AddPassingName(name.view(), hash, &call->name);
        if (call->passing == 0) call->name = call->own_name = AcquireNameWord(name.view());
        if (t_locals.state != nullptr && OwnFreeLists() != nullptr) t_locals.state->names.Refill(name.view().size());
      }
    }
  }
  errno = error;
}

// Calls use(name) with the name of the call. Computes it only if FindName() did not, or another name has taken its place. REQUIRES: cold
// lock; the program may read `path`.
template <typename Use>
auto WithName(const NamedFileWait& call, const char* path, Use use) {
  const uint32_t granule = NameOf(call.name);
  if (granule != 0 && NameVersion(granule) == call.name >> 32) return use(NameText(granule));
  const FileName name(path);
  return use(name.view());
}

bool BeginByName(NamedFileWait* call, uint32_t key, Operation operation, const char* path, uint64_t state_bits, uint32_t open_flags,
                 const char* source_file, uint32_t line) {
  if (!EnsureStarted()) return false;
  const uint32_t class_index = ClassOfKey(Family::kFile, key);
  if (class_index == 0 || (g_runtime.classes[class_index].flags.load(kRelaxed) & kFlagEnabled) == 0) return false;
  // pfs run, which knows that the name may be read, has looked for a known one already.
  if (path != nullptr && !call->is_readable) {
    call->is_readable = IsReadable(path);
    if (call->is_readable && FindRecentFile(call, path) == class_index) {
      return BeginOnName(call, class_index, operation, state_bits | kRecordHasName, open_flags, source_file, line);
    }
  }
  FindName(call, class_index, path);
  NoteRecentFile(*call, path);
  if (call->passing != 0) NoteSiteOfPassingName(call->passing, source_file, class_index);
  if (call->name != 0) state_bits |= kRecordHasName;
  return BeginOnName(call, class_index, operation, state_bits, open_flags, source_file, line);
}

}  // namespace

bool BeginFileOpen(NamedFileWait* call, uint32_t key, Operation operation, const char* path, int open_flags, const char* source_file,
                   uint32_t line) {
  return BeginByName(call, key, operation, path, kRecordHasFlags, static_cast<uint32_t>(open_flags), source_file, line);
}

void EndFileOpen(NamedFileWait* call, const char* path, int fd, bool temporary) {
  const int error = errno;
  const auto give_without_lock = [&] {
    if (temporary || call->named == nullptr || !GiveDescriptorWithoutLock(fd, *call->named, call->name)) return false;
    call->file = call->named;
    return call->file->class_index.load(kRelaxed) == call->wait.class_index;
  };
  EndOnKnown(*call, give_without_lock, [&](const EndedWait& ended) {
    std::optional<NoSignals> once;  // instead of twice: the first event of a file makes cells
    uint64_t more = 0;
    if (fd >= 0 && path != nullptr) {
      if (call->file == nullptr) (void)give_without_lock();
      if (call->file == nullptr) {
        if (call->passing != 0) {
          ForgetSiteOfPassingName(call->passing);
          call->own_name = TakePassingName(std::exchange(call->passing, 0));
        }
        if (!temporary) call->file = MakeFileWithoutLock(call->wait.class_index, fd, call->own_name);
        if (call->file != nullptr) call->own_name = 0;
      }
      if (call->file == nullptr) {
        once.emplace();
        if (ColdLock lock; lock) {
          const auto bind = [&](std::string_view name) {
            return BindDescriptor(call->wait.class_index, fd, name, &call->own_name, temporary);
          };
          call->file = WithName(*call, path, bind);
          ReleaseOwnName(call);
          TakeFilesInAdvance(call->wait.class_index);
        } else {
          CountLoss(Loss::kFileHandles);  // what is done with the descriptor will not be followed
        }
      }
      NameRecord(*call, call->file, &more);
    } else if (fd == kFailed) {
      CountFailedCall(*call, path, ended, error);
    }
    FinishFileWait(*call, call->operation, ended, 0, more, [&] { ReleaseUnusedName(call); });
  });
  errno = error;
}

namespace {

// Compiled for close() apart, which shows no bytes.
PFS_ALWAYS_INLINE bool BeginOnDescriptor(FileWait* call, ShmFile* file, uint32_t flags, Operation operation, int64_t requested_bytes,
                                         const char* source_file, uint32_t line) {
  const uint32_t class_index = file->class_index.load(kRelaxed), version = file->version.load(kRelaxed);
  call->file = file;
  call->operation = operation;
  call->version = version;
  if (IsAllOn(flags, flags & kFlagSocket)) {
    const FileHooks hooks{*file, operation, requested_bytes, -1, class_index, version};
    if (FastBegin(call->wait, hooks, flags, source_file, line)) return true;
  } else if (BeginUnrecorded(call->wait, flags, class_index)) {
    return true;
  } else if (IsUntimed(flags & ~kFlagSocket)) {
    if (BeginUntimed(call, requested_bytes, flags, source_file, line)) return true;
  }
  const WaitDetails details = DetailsOf(*file, requested_bytes);
  if (!BeginWait<true>(call->wait, flags, class_index, operation, ObjectOf(*file, -1), source_file, line, details)) return false;
  KeepUntilEnd(call->wait);
  return true;
}

}  // namespace

bool BeginFileOperation(FileWait* call, ShmFile* file, uint32_t flags, Operation operation, int64_t requested_bytes,
                        const char* source_file, uint32_t line) {
  return BeginOnDescriptor(call, file, flags, operation, requested_bytes, source_file, line);
}

void EndFileOperation(FileWait* call, int64_t bytes) {
  if (call->operation == Operation::kClose || call->operation == Operation::kSocketClose) return EndFileClose(call, 0);
  const int error = errno;
  bytes = std::max<int64_t>(bytes, 0);  // less does not say that the call failed
  if (MayEndFast(call->wait)) {
    const uint64_t end_ticks = ReadCycle();
    const bool shows_bytes = (call->wait.begun_state & kRecordHasBytes) != 0;
    const FileHooks hooks{*call->file, call->operation, shows_bytes ? 0 : -1, -1, call->wait.class_index, call->version, bytes};
    if (!FastEnd(call->wait, hooks, end_ticks)) EndFileWait(*call, call->operation, bytes, EndedAt(call->wait, end_ticks));
  } else if (MayEnd(call->wait)) {
    EndFileWait(*call, call->operation, bytes);
  }
  errno = error;
}

// No lock: the descriptor's part in the file is the caller's until it lets go.
bool BeginFileClose(FileWait* call, int fd, const char* source_file, uint32_t line) {
  ShmFile* const file = TakeDescriptor(fd);
  if (file == nullptr) return false;
  const uint32_t flags = file->flags.load(kRelaxed);
  const Operation operation = (flags & kFlagSocket) != 0 ? Operation::kSocketClose : Operation::kClose;
  if ((flags & kFlagEnabled) != 0 && BeginOnDescriptor(call, file, flags, operation, -1, source_file, line)) return true;
  ReleaseClosedFile(*file);
  return false;
}

void EndFileClose(FileWait* call, int rc) {
  (void)rc;  // on Linux the descriptor is gone whatever close() says
  const int error = errno;
  if (MayEnd(call->wait)) {
    EndOnKnown(
        *call, [] { return true; }, [&](const EndedWait& ended) { FinishFileWait(*call, call->operation, ended, 0, 0, [] {}); });
  }
  // Closed it is, whosever event that was. In a child that was forked meanwhile the slot may be free, or another's.
  if (call->file->version.load(kRelaxed) == call->version) ReleaseFile(*call->file);
  errno = error;
}

bool BeginFileName(NamedFileWait* call, uint32_t key, Operation operation, const char* path, const char* source_file, uint32_t line) {
  return BeginByName(call, key, operation, path, 0, 0, source_file, line);
}

namespace {

bool NamesFile(Operation operation) { return operation != Operation::kMkdir && operation != Operation::kRmdir; }

bool IsOfNoFile(const char* path) {
  const FileName name(path);
  return IsNoFile(name.view(), HashName(name.view()));
}

// Returns whether no file has the name of the call. Needs no lock. `path` nullptr: only if the call holds the name.
bool IsOfNoFile(const NamedFileWait& call, const char* path = nullptr) {
  if (IsStillForked() || (call.passing == 0 && (call.name != 0 || path == nullptr || !call.is_readable))) return false;
  return !NamesFile(call.operation) || (call.passing != 0 ? IsStillPassing(call.passing, call.name) : IsOfNoFile(path));
}

// Ends an operation on a name where nothing is to be done under the cold lock.
void EndWithoutLock(NamedFileWait* call, const char* path, int rc, const EndedWait& ended, int error) {
  uint64_t more = 0;
  NameRecord(*call, call->file, &more);
  if (rc == kFailed) CountFailedCall(*call, path, ended, error);
  FinishFileWait(*call, call->operation, ended, 0, more, [&] { ReleaseUnusedName(call); });
}

// The common end of operations by name. The file is looked up here, after the timer: the lookup is no part of the event, and where the
// system said EFAULT pfs may not read the name. `on_success` changes the file under the cold lock once the event is counted on it.
template <typename OnSuccess>
void EndByName(NamedFileWait* call, const char* path, int rc, const EndedWait& ended, OnSuccess on_success) {
  const int error = errno;
  const NoSignals once;  // instead of twice, for each lock
  uint64_t more = 0;
  if (NamesFile(call->operation) && path != nullptr && (rc == 0 || error != EFAULT)) {
    if (ColdLock lock; lock) {
      call->file = WithName(*call, path, [](std::string_view name) { return FindByName(name, HashName(name)); });
      if (call->file != nullptr) call->file->open_count.fetch_add(1, kRelaxed);  // stays until the end
    }
  }
  NameRecord(*call, call->file, &more);
  if (rc == kFailed) CountFailedCall(*call, path, ended, error);
  FinishFileWait(*call, call->operation, ended, 0, more, [&] {
    if (call->passing != 0) {
      ForgetSiteOfPassingName(call->passing);  // it may be a file's name by now
      LetPassingNameGo(std::exchange(call->passing, 0));
    }
    if (ColdLock lock; lock) {
      ReleaseOwnName(call);
      if (call->file != nullptr) call->file->open_count.fetch_sub(1);  // pairs with LetGo
      if (rc == 0) on_success();
      if (call->file != nullptr) BuryIfUnused(*call->file);
    }
  });
  errno = error;
}

}  // namespace

void EndFileName(NamedFileWait* call, const char* path, int rc) {
  const int error = errno;
  bool is_kept = false;
  const auto keep = [&] {
    is_kept = NamesFile(call->operation) && call->named != nullptr && !IsStillForked() && KeepFile(*call->named, call->name);
    if (is_kept) call->file = call->named;
    return is_kept && rc == 0 && call->file->class_index.load(kRelaxed) == call->wait.class_index;
  };
  EndOnKnown(*call, keep, [&](const EndedWait& ended) {
    if (!is_kept) (void)keep();
    if (!is_kept && !IsOfNoFile(*call, error == EFAULT ? nullptr : path)) return EndByName(call, path, rc, ended, [] {});
    EndWithoutLock(call, path, rc, ended, error);
  });
  if (is_kept) ReleaseFile(*call->file);
  errno = error;
}

namespace {

// Returns whether the program has written bytes to the file: it is no folder. REQUIRES: cold lock, as for the next two.
bool IsWritten(const ShmFile* file) {
  uint32_t at = file == nullptr ? 0 : HeadOf(file->lanes[kWriteLane]);
  while (at != 0 && BytesIn(g_runtime.cells[at]) == 0) at = g_runtime.cells[at].next.load(kRelaxed);
  return at != 0;
}

void WasDeleted(ShmFile* file) {
  if (!IsLiveFile(file)) return;
  const uint64_t name = file->name.load(kRelaxed);
  const uint64_t copy = name != 0 ? AcquireNameWord(NameText(NameOf(name))) : 0;
  const uint32_t hash = file->hash.load(kRelaxed);
  RetireFile(*file);
  if (copy != 0) LeavePassingName(copy, hash);
}

void WasRenamed(ShmFile* file, const char* new_path) {
  const FileName name(new_path);
  const uint32_t hash = HashName(name.view());
  ShmFile* replaced = FindByName(name.view(), hash);
  if (replaced != nullptr && replaced != file) RetireFile(*replaced);  // the file of that name is no more
  if (!IsLiveFile(file) || replaced == file) return;
  // The same instance under the new name; events that have happened keep the old one.
  TakeFromBucket(*file);
  ReleaseName(NameOf(file->name.load(kRelaxed)));
  SetFileName(*file, name.view());
  file->hash.store(hash, kRelaxed);
  while ((replaced = AddToBucket(*file, name.view())) != nullptr) RetireFile(*replaced);
}

// Does `then` with the file of a name where no event is counted.
template <typename Then>
void WithoutEvent(const char* path, Then then) {
  if (!EnsureStarted() || path == nullptr || !KnowsFiles()) return;
  const int error = errno;
  const FileName name(path);
  const uint32_t hash = HashName(name.view());
  if (!IsNoFile(name.view(), hash)) {
    if (ColdLock lock; lock) then(FindByName(name.view(), hash));
  }
  errno = error;
}

}  // namespace

void EndFileDelete(NamedFileWait* call, const char* path, int rc) {
  if (call == nullptr) return WithoutEvent(path, WasDeleted);
  const int error = errno;
  const EndedWait ended = EndWait(call->wait);
  if (IsOfNoFile(*call, error == EFAULT ? nullptr : path)) {
    EndWithoutLock(call, path, rc, ended, error);
  } else {
    EndByName(call, path, rc, ended, [&] { WasDeleted(call->file); });
  }
  errno = error;
}

void EndFileRename(NamedFileWait* call, const char* old_path, const char* new_path, int rc) {
  const int error = errno;
  bool may_be_folder = rc == 0;
  if (call == nullptr) {
    WithoutEvent(old_path, [&](ShmFile* file) { WasRenamed(file, new_path); });
  } else if (const EndedWait ended = EndWait(call->wait);
             IsOfNoFile(*call, error == EFAULT ? nullptr : old_path) && (rc != 0 || IsOfNoFile(new_path))) {
    EndWithoutLock(call, old_path, rc, ended, error);
  } else {
    EndByName(call, old_path, rc, ended, [&] {
      may_be_folder = !IsWritten(call->file);
      WasRenamed(call->file, new_path);
    });
  }
  if (may_be_folder) NoteRenamed(new_path);
  errno = error;
}

}  // namespace perfschema
