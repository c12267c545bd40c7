#include "record/family/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/private_memory.h"
#include "record/engine/classes.h"
#include "record/engine/cold_lock.h"
#include "record/engine/free_lists.h"
#include "record/engine/names.h"
#include "record/family/file_index.h"
#include "record/family/file_name.h"
#include "shm/budget.h"
#include "shm/limits.h"

namespace perfschema {

namespace {

// Files, and sockets, that have a slot. Changed under the cold lock.
constinit Word live_files{0}, live_sockets{0};
// A forked child has closed descriptors before its first event: its files count too many.
bool closed_in_forked_child = false;

// Counts the descriptors that are given to files without the cold lock, before and after it happens. Threads: any. Before fork() copies the
// segment: how many there were; kHalfGiven if not all had ended.
std::atomic<uint64_t> gifts_begun{0}, gifts_ended{0};
constexpr uint64_t kHalfGiven = ~uint64_t{0};
uint64_t gifts_before_fork = 0;

Word& LiveObjects(uint32_t class_index) {
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
  file.hash_next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelease);  // pairs with IsNoFile
  array.free_head.store(IndexOf(&file), kRelaxed);
}

// Its row disappears, its statistics move to its class. REQUIRES: it is not in the index.
void BuryFile(ShmFile& file) {
  const auto hide = [](void* object) {
    auto* dead = static_cast<ShmFile*>(object);
    dead->flags.fetch_or(kFlagDead, kRelaxed);
    dead->state.exchange(kFileDead);  // pairs with LetGo
  };
  const uint64_t key = CellKey(CellKind::kFile, IndexOf(&file), file.version.load(kRelaxed), 0);
  RetireObject(file.class_index.load(kRelaxed), key, file.lanes, nullptr, hide, &file);
  GiveFileIfUnused(file);
}

bool IsTemporary(const ShmFile& file) { return (file.state.load(kRelaxed) & kFileTemporary) != 0; }

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
  ShmFile* const earlier = AddToBucket(*file, name);
  if (earlier == nullptr) return file;
  BuryFile(*file);  // another thread has made it meanwhile
  return earlier;
}

// One thing less, a descriptor or an operation, that keeps the file. True: it may be that nothing keeps it, and BuryIfUnused() must look.
// Needs no lock. REQUIRES: the caller has that thing, and nobody else.
bool LetGo(ShmFile& file) {
  const bool was_last = file.open_count.fetch_sub(1) == 1;  // pairs with GiveFileIfUnused: either of them sees what the other has stored
  return was_last && (file.state.load() & (kFileStateMask | kFileTemporary)) != kFileLive;
}

}  // namespace

void BuryIfUnused(ShmFile& file) {
  if (IsTemporary(file) && file.open_count.load(kRelaxed) == 0 && IsLiveFile(&file)) RetireFile(file);
  GiveFileIfUnused(file);
}

void ReleaseFile(ShmFile& file) {
  if (!LetGo(file)) return;
  const int error = errno;
  if (ColdLock lock; lock) BuryIfUnused(file);
  errno = error;
}

void ReleaseClosedFile(ShmFile& file) {
  if (IsStillForked()) {  // the file is the parent's yet
    closed_in_forked_child = true;
  } else {
    ReleaseFile(file);
  }
}

bool KeepFile(ShmFile& file, uint64_t name) {
  file.open_count.fetch_add(1);  // pairs with GiveFileIfUnused: either of them sees what the other has stored
  if ((file.state.load() & kFileStateMask) == kFileLive && file.name.load(kAcquire) == name) return true;
  ReleaseFile(file);
  return false;
}

ShmFile* TakeDescriptor(int fd) {
  if (FileOfDescriptor(fd) == nullptr) return nullptr;
  const uint32_t index = g_runtime.file_of_descriptor[fd].exchange(0, std::memory_order_acquire);  // pairs with GiveDescriptor
  return index == 0 ? nullptr : &g_runtime.files[index];
}

ShmFile* BindDescriptor(uint32_t class_index, int fd, std::string_view name, uint64_t* own_name, bool temporary) {
  // Closed behind our back: the number is another file's now.
  if (static_cast<uint32_t>(fd) < g_runtime.max_descriptors) ForgetDescriptor(fd);
  const uint32_t hash = HashName(name);
  ShmFile* file = FindByName(name, hash);
  if (file == nullptr) file = TakeFile(class_index, name, hash, own_name);
  if (file == nullptr) {
    CountLoss(Loss::kFileInstances);
    return nullptr;
  }
  if (static_cast<uint32_t>(fd) >= g_runtime.max_descriptors) {
    CountLoss(Loss::kFileHandles);
    return file;
  }
  if (temporary) file->state.fetch_or(kFileTemporary, kRelaxed);
  GiveDescriptor(fd, *file);
  return file;
}

namespace {

// Takes back what threads have taken in advance. Returns false if there is nothing.
bool TakeReadyFilesBack() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  const auto ready_of = [](uint32_t slot) { return SlotAt(slot).state == nullptr ? nullptr : &SlotAt(slot).state->ready_files; };
  bool are_some = false;
  for (uint32_t slot = 1; slot < used; ++slot)
    are_some = are_some || (ready_of(slot) != nullptr && ready_of(slot)->count.load(kRelaxed) != 0);
  if (!are_some) return false;
  CloseLockFreePath();
  const uint64_t lists = g_runtime.segment.array(ArrayId::kFreeLists).used.load(kRelaxed);
  for (uint64_t i = 1; i < lists; ++i) are_some = are_some && g_runtime.free_lists[i].is_busy.load(kRelaxed) == 0;  // not of one that hangs
  for (uint32_t slot = 1; are_some && slot < used; ++slot) {
    ReadyFiles* const ready = ready_of(slot);
    if (ready == nullptr) continue;
    const uint32_t count = ready->count.exchange(0, kRelaxed);
    for (uint32_t i = 0; i < count; ++i) BuryFile(g_runtime.files[ready->slots[i]]);
  }
  OpenLockFreePath();
  return are_some;
}

uint64_t MostLive(uint32_t class_index) {
  const FamilyLimits limits = LimitsOf(static_cast<Family>(g_runtime.classes[class_index].family));
  return static_cast<uint64_t>(StartOptionsLocked().Get(limits.instances));
}

ShmFile* TakeSlot(uint32_t class_index) {
  Word& live = LiveObjects(class_index);
  if (live >= MostLive(class_index)) return nullptr;
  ShmArray& array = g_runtime.segment.array(ArrayId::kFiles);
  uint64_t index = array.free_head.load(kRelaxed);
  if (index != 0) {
    array.free_head.store(g_runtime.files[index].hash_next.load(kRelaxed), kRelaxed);
  } else {
    const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kFiles, 1, &live == &live_sockets ? 0 : kPartsOfSockets);
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

void StoreFlagsOfClass(ShmFile& file, uint32_t class_index) {
  file.flags.store(g_runtime.classes[class_index].flags.load(kRelaxed), kRelaxed);
}

}  // namespace

ShmFile* AllocateFileSlot(uint32_t class_index) {
  ShmFile* const file = TakeSlot(class_index);
  const bool may_try_again = file == nullptr && &LiveObjects(class_index) == &live_files && TakeReadyFilesBack();
  return may_try_again ? TakeSlot(class_index) : file;
}

void SetFileName(ShmFile& file, std::string_view name) { file.name.store(name.empty() ? 0 : AcquireNameWord(name), kRelease); }

void PublishFile(ShmFile& file, uint32_t class_index, uint32_t state) {
  StoreFlagsOfClass(file, class_index);
  file.state.store(kFileLive | state, kRelease);  // pairs with KeepFile: the name is the new one
  file.class_index.store(class_index, kRelease);  // last: live from here on; pairs with Snapshot::files
}

void RetireFile(ShmFile& file) {
  const uint32_t class_index = file.class_index.load(kRelaxed);
  if (g_runtime.classes[class_index].family == static_cast<uint32_t>(Family::kFile)) TakeFromBucket(file);
  BuryFile(file);
}

void TakeFilesInAdvance(uint32_t class_index) {
  ThreadState* const thread = t_locals.state;
  if (thread == nullptr || OwnFreeLists() == nullptr) return;
  ReadyFiles& ready = thread->ready_files;
  ready.wanted = std::min(ReadyFiles::kMost, std::max(1u, 2 * ready.wanted));
  for (uint32_t count = ready.count.load(kRelaxed); count < ready.wanted && live_files < MostLive(class_index) / 2;) {
    ShmFile* const file = TakeSlot(class_index);
    if (file == nullptr) return;  // no loss: nobody needs it yet
    AddCells(*thread, file->lanes);
    StoreFlagsOfClass(*file, class_index);  // not kFlagDead, which a change of the setup would keep while the file is made
    file->name.store(0, kRelaxed);
    file->state.store(kFileReady, kRelaxed);
    file->class_index.store(class_index, kRelease);
    ready.slots[count] = IndexOf(file);
    ready.count.store(++count, kRelaxed);
  }
}

ShmFile* MakeFileWithoutLock(uint32_t class_index, int fd, uint64_t word) {
  ThreadLocals& self = t_locals;
  ShmFreeLists* const own = self.free_lists;
  if (own == nullptr || self.state == nullptr || self.in_cold_lock || word == 0) return nullptr;
  if (static_cast<uint32_t>(fd) >= g_runtime.max_descriptors || FileOfDescriptor(fd) != nullptr) return nullptr;
  ReadyFiles& ready = self.state->ready_files;
  bool is_sure = false;
  ShmFile* file = nullptr;
  const std::string_view name = NameText(NameOf(word));
  {
    const OnLockFreePath on(self, *own);
    LightBarrier(*own);
    const uint32_t count = ready.count.load(kRelaxed);
    if (OnLockFreePath::IsClosed() || count == 0) return nullptr;
    file = &g_runtime.files[ready.slots[count - 1]];
    ready.count.store(count - 1, kRelaxed);  // first: a handler that does not return must leave no slot in two places
    std::atomic_signal_fence(std::memory_order_seq_cst);
    StoreFlagsOfClass(*file, class_index);
    file->class_index.store(static_cast<uint16_t>(class_index), kRelaxed);
    file->hash.store(HashName(name), kRelaxed);
    file->open_count.fetch_add(1, kRelaxed);  // a search may still hold an earlier file of the slot
    file->name.store(word, kRelease);
    if (!AddToBucketWithoutLock(*file, name, &is_sure)) {
      file->name.store(0, kRelaxed);
      file->open_count.fetch_sub(1, kRelaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      ready.count.store(count, kRelaxed);
      return nullptr;
    }
    g_runtime.file_of_descriptor[fd].store(IndexOf(file), kRelease);  // pairs with TakeDescriptor
  }
  if (__builtin_expect(!is_sure, 0)) {
    if (ColdLock lock; lock && IsLiveFile(file)) {
      if (ShmFile* const earlier = FindSecond(*file, name); earlier != nullptr) {
        ForgetDescriptor(fd);
        GiveDescriptor(fd, *earlier);
        RetireFile(*file);
        return earlier;
      }
    }
  }
  return file;
}

void ForgetDescriptor(int fd) {
  if (ShmFile* const file = TakeDescriptor(fd); file != nullptr && LetGo(*file)) BuryIfUnused(*file);
}

// Counts the descriptors of each file again.
static void CountDescriptors() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kFiles).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) g_runtime.files[i].open_count.store(0, kRelaxed);
  for (uint32_t fd = 0; fd < g_runtime.max_descriptors; ++fd) {
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
  g_runtime.file_of_descriptor[fd].store(IndexOf(&file), kRelease);  // pairs with TakeDescriptor
}

bool GiveDescriptorWithoutLock(int fd, ShmFile& file, uint64_t name) {
  const bool is_free = static_cast<uint32_t>(fd) < g_runtime.max_descriptors && FileOfDescriptor(fd) == nullptr;
  if (!is_free || IsStillForked()) return false;
  gifts_begun.fetch_add(1);  // before the file changes; pairs with NoteDescriptorsBeforeFork
  const bool is_kept = KeepFile(file, name);
  if (is_kept) g_runtime.file_of_descriptor[fd].store(IndexOf(&file), kRelease);  // pairs with TakeDescriptor
  gifts_ended.fetch_add(1);
  return is_kept;
}

namespace {

// Whether names below open directories have been made from the names of these, and whether those may be wrong by now. The kernel knows the
// right ones: once a directory has moved, it is asked each time.
constinit std::atomic<bool> uses_names_of_directories{false}, directories_have_moved{false};

}  // namespace

size_t CopyNameOfDirectory(int fd, char* to, size_t size) {
  if (fd < 0 || directories_have_moved.load(kRelaxed) || IsStillForked()) return 0;
  const ShmFile* const file = FileOfDescriptor(fd);
  if (file == nullptr || (file->flags.load(kRelaxed) & kFlagSocket) != 0) return 0;
  const uint64_t word = file->name.load(kAcquire);
  const size_t bytes = CopyNameNow(word, to, size);
  const bool is_whole = bytes != 0 && bytes < kMaxObjectName && to[0] == '/';  // else it may have been shortened, or is no path
  if (!is_whole || file->name.load(kRelaxed) != word || FileOfDescriptor(fd) != file) return 0;
  if (!uses_names_of_directories.load(kRelaxed)) uses_names_of_directories.store(true, kRelaxed);
  return bytes;
}

bool KnowsFiles() { return live_files.load(kRelaxed) != 0; }

void DirectoriesMayHaveMoved() { directories_have_moved.store(true, kRelaxed); }

void NoteRenamed(const char* new_path) {
  if (!uses_names_of_directories.load(kRelaxed) || directories_have_moved.load(kRelaxed)) return;
  const int error = errno;
  struct stat info;
  if (lstat(new_path, &info) != 0 || S_ISDIR(info.st_mode)) DirectoriesMayHaveMoved();
  errno = error;
}

bool StartFiles() {
  const auto descriptors = static_cast<uint32_t>(StartOptionsLocked().Get(OptionId::max_file_handles));
  const size_t table = (descriptors + 1) * sizeof(HalfWord);
  void* const memory = MapPrivate(table + kFileIndexBytes);
  if (memory == nullptr) return false;
  g_runtime.file_of_descriptor = static_cast<HalfWord*>(memory);
  StartFileIndex(static_cast<char*>(memory) + table);
  g_runtime.max_descriptors = descriptors;  // last: a caller that finds a descriptor in range finds the table
  return true;
}

bool BindFile(uint32_t key, int fd, std::string_view shown) {
  if (fd < 0 || !EnsureStarted()) return false;
  const uint32_t class_index = ClassOfKey(Family::kFile, key);
  if (class_index == 0 || (g_runtime.classes[class_index].flags.load(kRelaxed) & kFlagEnabled) == 0) return false;
  const int error = errno;
  bool bound = false;
  if (ColdLock lock; lock) {
    uint64_t own_name = 0;
    bound = BindDescriptor(class_index, fd, shown, &own_name, false) != nullptr;
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
