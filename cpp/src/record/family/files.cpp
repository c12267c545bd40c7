#include "record/family/files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "record/engine/classes.h"
#include "record/engine/names.h"
#include "record/family/file_index.h"
#include "record/family/file_name.h"
#include "shm/limits.h"

namespace perfschema {

HalfWord* g_file_of_descriptor = nullptr;
uint32_t g_max_descriptors = 0;

namespace {

// Files, and sockets, that have a slot. Guarded by the cold lock.
uint64_t live_files = 0, live_sockets = 0;
// A forked child has closed descriptors before its first event: its files count too many.
bool closed_in_forked_child = false;

// Counts the descriptors that are given to files without the cold lock, before and after it happens. Threads: any. Before fork() copies the
// segment: how many there were; kHalfGiven if not all had ended.
std::atomic<uint64_t> gifts_begun{0}, gifts_ended{0};
constexpr uint64_t kHalfGiven = ~uint64_t{0};
uint64_t gifts_before_fork = 0;

uint64_t& LiveObjects(uint32_t class_index) {
  return g_runtime.classes[class_index].family == static_cast<uint32_t>(Family::kSocket) ? live_sockets : live_files;
}

uint32_t IndexOf(const ShmFile* file) { return static_cast<uint32_t>(file - g_runtime.files); }

// A dead file goes when nothing reaches it any more. REQUIRES: cold lock, as for all that follows unless it says so.
void GiveFileIfUnused(ShmFile& file) {
  if ((file.state.load(kRelaxed) & kFileStateMask) != kFileDead || file.open_count.load() != 0) return;  // pairs with LetGo
  --LiveObjects(file.class_index.load(kRelaxed));
  file.class_index.store(0, kRelease);
  file.state.store(kFileFree, kRelaxed);
  ReleaseName(NameOf(file.name.load(kRelaxed)));
  ShmArray& array = g_runtime.segment.array(ArrayId::kFiles);
  file.hash_next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelaxed);
  array.free_head.store(IndexOf(&file), kRelaxed);
}

bool IsLiveFile(const ShmFile* file) { return file != nullptr && (file->flags.load(kRelaxed) & kFlagDead) == 0; }

bool IsTemporary(const ShmFile& file) { return (file.state.load(kRelaxed) & kFileTemporary) != 0; }

// Does what is left to do for a file that nothing keeps. Nothing is done twice, whoever comes, and if the slot is another file's by now.
void BuryIfUnused(ShmFile& file) {
  if (IsTemporary(file) && file.open_count.load(kRelaxed) == 0 && IsLiveFile(&file)) RetireFile(file);
  GiveFileIfUnused(file);
}

// One thing less, a descriptor or an operation, that keeps the file. True: it may be that nothing keeps it, and BuryIfUnused() must look.
// Needs no lock. REQUIRES: the caller has that thing, and nobody else.
bool LetGo(ShmFile& file) {
  const bool was_last = file.open_count.fetch_sub(1) == 1;  // pairs with GiveFileIfUnused: either of them sees what the other has stored
  return was_last && (file.state.load() & (kFileStateMask | kFileTemporary)) != kFileLive;
}

void Release(ShmFile& file) {
  if (LetGo(file)) BuryIfUnused(file);
}

void ReleaseWithoutLock(ShmFile& file) {
  if (!LetGo(file)) return;
  const int error = errno;
  if (ColdLock lock; lock) BuryIfUnused(file);
  errno = error;
}

// Keeps a file, as a descriptor or an operation does, if it is live and still has that name. Needs no lock. The name was the file's when
// it was found, and no two files have the same word, so this file is that one.
bool Keep(ShmFile& file, uint64_t name) {
  file.open_count.fetch_add(1);  // pairs with GiveFileIfUnused: either of them sees what the other has stored
  if ((file.state.load() & kFileStateMask) == kFileLive && file.name.load(kAcquire) == name) return true;
  ReleaseWithoutLock(file);
  return false;
}

// `own_name`: a copy of the name that the file takes; 0 = there is none.
ShmFile* TakeFile(uint32_t class_index, std::string_view name, uint32_t hash, uint64_t* own_name) {
  ShmFile* file = AllocateFileSlot(class_index);
  if (file == nullptr) return nullptr;
  if (*own_name == 0) {
    SetFileName(*file, name);
  } else {
    file->name.store(std::exchange(*own_name, 0), kRelease);
  }
  file->hash.store(hash, kRelaxed);
  PublishFile(*file, class_index, 0);
  AddToBucket(*file);
  return file;
}

// What the descriptor names. It names nothing from here on, and its part in the file is the caller's. Needs no lock.
ShmFile* TakeDescriptor(int fd) {
  if (FileOfDescriptor(fd) == nullptr) return nullptr;
  const uint32_t index = g_file_of_descriptor[fd].exchange(0, std::memory_order_acquire);  // pairs with GiveDescriptor
  return index == 0 ? nullptr : &g_runtime.files[index];
}

ShmFile* Bind(uint32_t class_index, int fd, std::string_view name, uint64_t* own_name, bool temporary) {
  if (static_cast<uint32_t>(fd) < g_max_descriptors) ForgetDescriptor(fd);  // closed behind our back: the number is another file's now
  const uint32_t hash = HashName(name);
  ShmFile* file = FindByName(name, hash);
  if (file == nullptr) file = TakeFile(class_index, name, hash, own_name);
  if (file == nullptr) {
    CountLoss(Loss::kFileInstances);
    return nullptr;
  }
  if (static_cast<uint32_t>(fd) >= g_max_descriptors) {
    CountLoss(Loss::kFileHandles);
    return file;
  }
  if (temporary) file->state.fetch_or(kFileTemporary, kRelaxed);
  GiveDescriptor(fd, *file);
  return file;
}

}  // namespace

ShmFile* AllocateFileSlot(uint32_t class_index) {
  uint64_t& live = LiveObjects(class_index);
  const FamilyLimits limits = LimitsOf(static_cast<Family>(g_runtime.classes[class_index].family));
  if (live >= static_cast<uint64_t>(StartOptionsLocked().Get(limits.instances))) return nullptr;
  ShmArray& array = g_runtime.segment.array(ArrayId::kFiles);
  uint64_t index = array.free_head.load(kRelaxed);
  if (index != 0) {
    array.free_head.store(g_runtime.files[index].hash_next.load(kRelaxed), kRelaxed);
  } else {
    const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kFiles);
    if (fresh < 0) return nullptr;
    index = static_cast<uint64_t>(fresh);
  }
  ++live;
  ShmFile& file = g_runtime.files[index];
  file.version.fetch_add(1, kRelaxed);
  for (ShmCellList& lane : file.lanes) lane.first.store(0, kRelaxed);
  file.thread_id.store(0, kRelaxed);
  return &file;
}

void SetFileName(ShmFile& file, std::string_view name) { file.name.store(name.empty() ? 0 : AcquireNameWord(name), kRelease); }

void PublishFile(ShmFile& file, uint32_t class_index, uint32_t state) {
  file.flags.store(g_runtime.classes[class_index].flags.load(kRelaxed), kRelaxed);
  file.state.store(kFileLive | state, kRelease);  // pairs with Keep: the name is the new one
  file.class_index.store(class_index, kRelease);  // last: live from here on; pairs with Snapshot::files
}

void RetireFile(ShmFile& file) {
  const uint32_t class_index = file.class_index.load(kRelaxed);
  if (g_runtime.classes[class_index].family == static_cast<uint32_t>(Family::kFile)) TakeFromBucket(file);
  const auto hide = [](void* object) {
    auto* dead = static_cast<ShmFile*>(object);
    dead->flags.fetch_or(kFlagDead, kRelaxed);
    dead->state.exchange(kFileDead);  // pairs with LetGo
  };
  RetireObject(class_index, CellKey(CellKind::kFile, IndexOf(&file), file.version.load(kRelaxed), 0), file.lanes, nullptr, hide, &file);
  GiveFileIfUnused(file);
}

void ForgetDescriptor(int fd) {
  if (ShmFile* file = TakeDescriptor(fd); file != nullptr) Release(*file);
}

// Counts the descriptors of each file again.
static void CountDescriptors() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kFiles).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) g_runtime.files[i].open_count.store(0, kRelaxed);
  for (uint32_t fd = 0; fd < g_max_descriptors; ++fd) {
    if (ShmFile* const file = FileOfDescriptor(static_cast<int>(fd)); file != nullptr) file->open_count.fetch_add(1, kRelaxed);
  }
  for (uint64_t i = 1; i < used; ++i) BuryIfUnused(g_runtime.files[i]);
}

void NoteDescriptorsBeforeFork() {
  const uint64_t begun = gifts_begun.load(), noted = begun == gifts_ended.load() ? begun : kHalfGiven;
  if (gifts_before_fork != noted) gifts_before_fork = noted;  // a store would make the kernel copy a page that the last child has, too
}

void ForgetSocketsInChild() {
  const uint64_t begun = gifts_begun.load();
  const bool were_none = begun == gifts_before_fork && begun == gifts_ended.load();
  gifts_ended.store(begun);  // the threads that were at it are the parent's
  if (std::exchange(closed_in_forked_child, false) || !were_none) CountDescriptors();
  const uint64_t used = g_runtime.segment.array(ArrayId::kFiles).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmFile& file = g_runtime.files[i];
    const uint32_t class_index = file.class_index.load(kRelaxed);
    if (class_index == 0 || g_runtime.classes[class_index].family != static_cast<uint32_t>(Family::kSocket)) continue;
    if (FileOfDescriptor(static_cast<int>(file.hash.load(kRelaxed))) == &file) continue;
    file.open_count.store(0, kRelaxed);
    if (IsLiveFile(&file)) RetireFile(file);
    GiveFileIfUnused(file);
  }
}

void GiveDescriptor(int fd, ShmFile& file) {
  file.open_count.fetch_add(1, kRelaxed);
  g_file_of_descriptor[fd].store(IndexOf(&file), kRelease);  // pairs with TakeDescriptor
}

bool BeginOnClass(FileWait* call, uint32_t class_index, Operation operation, const WaitDetails& details, const char* source_file,
                  uint32_t line) {
  const uint32_t flags = g_runtime.classes[class_index].flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return false;
  call->file = nullptr;
  call->operation = operation;
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

bool StartFiles() {
  const auto descriptors = static_cast<uint32_t>(StartOptionsLocked().Get(OptionId::max_file_handles));
  const size_t table = (descriptors + 1) * sizeof(HalfWord);
  void* memory = mmap(nullptr, table + kFileIndexBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  g_file_of_descriptor = static_cast<HalfWord*>(memory);
  StartFileIndex(static_cast<char*>(memory) + table);
  g_max_descriptors = descriptors;  // last: a caller that finds a descriptor in range finds the table
  return true;
}

namespace {

// Makes the name known before the call is made, which may block for long. The program may read it at any time, also if the system refuses
// the call. All of this happens before the timer is read.
void FindName(NamedFileWait* call, uint32_t class_index, const char* path) {
  constexpr uint32_t kShown = kFlagEnabled | kFlagCurrent;
  if (path == nullptr || (g_runtime.classes[class_index].flags.load(kRelaxed) & kShown) != kShown) return;
  if (!call->is_readable && !IsReadable(path)) return;
  const int error = errno;
  const FileName name(path);
  const uint32_t hash = HashName(name.view());
  call->is_readable = true;
  call->named = FindWithoutLock(name.view(), hash, &call->name);
  if (call->named == nullptr) {
    call->name = 0;
    if (ColdLock lock; lock) {
      call->named = FindByName(name.view(), hash);
      call->name = call->named != nullptr ? call->named->name.load(kRelaxed) : call->own_name = AcquireNameWord(name.view());
    }
  }
  errno = error;
}

// Gives a descriptor to the file that had the name when the call began, without the lock. Returns false if it cannot.
bool GiveWithoutLock(const NamedFileWait& call, int fd) {
  const bool is_free = static_cast<uint32_t>(fd) < g_max_descriptors && FileOfDescriptor(fd) == nullptr;
  if (call.named == nullptr || !is_free || IsStillForked()) return false;
  gifts_begun.fetch_add(1);  // before the file changes; pairs with NoteDescriptorsBeforeFork
  const bool is_kept = Keep(*call.named, call.name);
  if (is_kept) g_file_of_descriptor[fd].store(IndexOf(call.named), kRelease);  // pairs with TakeDescriptor
  gifts_ended.fetch_add(1);
  return is_kept;
}

// REQUIRES: cold lock.
void ReleaseOwnName(NamedFileWait* call) { ReleaseName(NameOf(std::exchange(call->own_name, 0))); }

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
  if (class_index == 0) return false;
  FindName(call, class_index, path);
  NoteRecentFile(*call, path);
  if (call->name != 0) state_bits |= kRecordHasName;
  const WaitDetails details{state_bits, 0, call->name << 32 | open_flags, call->name >> 32};
  if (BeginOnClass(call, class_index, operation, details, source_file, line)) return true;
  if (call->own_name != 0) {
    if (ColdLock lock; lock) ReleaseOwnName(call);
  }
  return false;
}

}  // namespace

bool BeginFileOpen(NamedFileWait* call, uint32_t key, Operation operation, const char* path, int open_flags, const char* source_file,
                   uint32_t line) {
  return BeginByName(call, key, operation, path, kRecordHasFlags, static_cast<uint32_t>(open_flags), source_file, line);
}

void EndFileOpen(NamedFileWait* call, const char* path, int fd, bool temporary) {
  const int error = errno;
  const EndedWait ended = EndWait(call->wait);
  uint64_t more = 0;
  if (fd < 0 && call->own_name != 0) {
    if (ColdLock lock; lock) ReleaseOwnName(call);
  }
  if (fd >= 0 && path != nullptr) {
    if (!temporary && GiveWithoutLock(*call, fd)) {
      call->file = call->named;
    } else if (ColdLock lock; lock) {
      call->file =
          WithName(*call, path, [&](std::string_view name) { return Bind(call->wait.class_index, fd, name, &call->own_name, temporary); });
      ReleaseOwnName(call);
    } else {
      CountLoss(Loss::kFileHandles);  // what is done with the descriptor will not be followed
    }
    NameRecord(*call, call->file, &more);
  }
  FinishFileWait(*call, call->operation, ended, 0, more, [] {});
  errno = error;
}

// No lock: the descriptor's part in the file is the caller's until it lets go.
bool BeginFileClose(FileWait* call, int fd, const char* source_file, uint32_t line) {
  ShmFile* const file = TakeDescriptor(fd);
  if (file == nullptr) return false;
  const uint32_t flags = file->flags.load(kRelaxed);
  const Operation operation = (flags & kFlagSocket) != 0 ? Operation::kSocketClose : Operation::kClose;
  if ((flags & kFlagEnabled) != 0 && BeginFileWait(call, file, flags, operation, -1, -1, source_file, line)) {
    call->version = file->version.load(kRelaxed);
    return true;
  }
  if (IsStillForked()) {  // the file is the parent's yet
    closed_in_forked_child = true;
  } else {
    ReleaseWithoutLock(*file);
  }
  return false;
}

void EndFileClose(FileWait* call, int rc) {
  (void)rc;  // on Linux the descriptor is gone whatever close() says
  const int error = errno;
  const auto release = [&] {
    // In a child that was forked meanwhile the slot may be free, or another's.
    if (call->file->version.load(kRelaxed) == call->version) ReleaseWithoutLock(*call->file);
  };
  if (MayEnd(call->wait)) {
    const EndedWait ended = EndWait(call->wait);
    FinishFileWait(*call, call->operation, ended, 0, 0, release);
  } else {
    release();  // closed it is, whosever event that was
  }
  errno = error;
}

bool BeginFileName(NamedFileWait* call, uint32_t key, Operation operation, const char* path, const char* source_file, uint32_t line) {
  return BeginByName(call, key, operation, path, 0, 0, source_file, line);
}

namespace {

bool NamesFile(Operation operation) { return operation != Operation::kMkdir && operation != Operation::kRmdir; }

// The common end of operations by name. The file is looked up here, after the timer: the lookup is no part of the event, and where the
// system said EFAULT the name is none of ours to read. `on_success` changes the file under the cold lock once the event is counted on it.
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
  FinishFileWait(*call, call->operation, ended, 0, more, [&] {
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
  const EndedWait ended = EndWait(call->wait);
  const bool may_keep = NamesFile(call->operation) && call->named != nullptr && !IsStillForked();
  if (!may_keep || !Keep(*call->named, call->name)) return EndByName(call, path, rc, ended, [] {});
  const int error = errno;
  uint64_t more = 0;
  call->file = call->named;
  NameRecord(*call, call->file, &more);
  FinishFileWait(*call, call->operation, ended, 0, more, [&] { ReleaseWithoutLock(*call->file); });
  errno = error;
}

namespace {

// REQUIRES: cold lock, for both.
void WasDeleted(ShmFile* file) {
  if (IsLiveFile(file)) RetireFile(*file);
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
  AddToBucket(*file);
}

// Does `then` with the file of a name where no event is counted.
template <typename Then>
void WithoutEvent(const char* path, Then then) {
  if (!EnsureStarted() || path == nullptr) return;
  const int error = errno;
  if (ColdLock lock; lock && g_runtime.segment.array(ArrayId::kFiles).used.load(kRelaxed) > 1) {
    const FileName name(path);
    then(FindByName(name.view(), HashName(name.view())));
  }
  errno = error;
}

}  // namespace

void EndFileDelete(NamedFileWait* call, const char* path, int rc) {
  if (call == nullptr) return WithoutEvent(path, WasDeleted);
  EndByName(call, path, rc, EndWait(call->wait), [&] { WasDeleted(call->file); });
}

void EndFileRename(NamedFileWait* call, const char* old_path, const char* new_path, int rc) {
  if (call == nullptr) return WithoutEvent(old_path, [&](ShmFile* file) { WasRenamed(file, new_path); });
  EndByName(call, old_path, rc, EndWait(call->wait), [&] { WasRenamed(call->file, new_path); });
}

bool BindFile(uint32_t key, int fd, std::string_view shown) {
  if (fd < 0 || !EnsureStarted()) return false;
  const uint32_t class_index = ClassOfKey(Family::kFile, key);
  if (class_index == 0 || (g_runtime.classes[class_index].flags.load(kRelaxed) & kFlagEnabled) == 0) return false;
  const int error = errno;
  bool bound = false;
  if (ColdLock lock; lock) {
    uint64_t own_name = 0;
    bound = Bind(class_index, fd, shown, &own_name, false) != nullptr;
  }
  errno = error;
  return bound;
}

void UnbindFile(int fd) {
  const int error = errno;
  if (ColdLock lock; lock) ForgetDescriptor(fd);
  errno = error;
}

}  // namespace perfschema
