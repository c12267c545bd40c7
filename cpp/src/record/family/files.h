// record/family/files.h: instrumented files: known by name, reached by descriptor. And what sockets (record/family/sockets.h) have in
// common with them: a ShmFile, the table of descriptors, an operation from begin to end.
#pragma once

#include "record/probe/call_sites.h"
#include "record/probe/wait.h"

namespace perfschema {

// An operation on a file or a socket in progress, on the caller's stack.
struct FileWait {
  Wait wait;
  ShmFile* file;  // nullptr = no object yet: counted on the class
  Operation operation;
  uint32_t version = 0;  // of a socket, when the operation began
};

// An operation on a name. Its event shows the name from its begin on. Both words are as in ShmFile::name.
struct NamedFileWait : FileWait {
  uint64_t name = 0;         // 0 = not known: no event shows it, or the system will refuse to read it
  uint64_t own_name = 0;     // the same, while it is this call's and no file's
  ShmFile* named = nullptr;  // the file that had the name when the call began; it may have another by now
  uint32_t passing = 0;      // the place of a name that no file had then (passing_names.h); 0 = none is held
  bool is_readable = false;  // IsReadable() has said so
};

// Private tables. Under the cold lock, once.
bool StartFiles();

// Notes whether descriptors are being given to files without the cold lock: the copy of the segment that a child gets has them or not.
// REQUIRES: cold lock, before the copy.
void NoteDescriptorsBeforeFork();

// The granule in ShmFile::name.
constexpr uint32_t NameOf(uint64_t name) { return static_cast<uint32_t>(name); }

inline ShmFile* FileOfDescriptor(int fd) {
  if (static_cast<uint32_t>(fd) >= g_runtime.max_descriptors) return nullptr;
  const uint32_t index = g_runtime.file_of_descriptor[fd].load(kRelaxed);
  return index == 0 ? nullptr : &g_runtime.files[index];
}

// Copies the name of a directory that is open, as the program knows it, without a system call. Returns how many bytes it has; 0 if it is
// not known, may have changed, or has more than `size` bytes. Needs no lock.
size_t CopyNameOfDirectory(int fd, char* to, size_t size);
// Returns whether there is a file. Needs no lock.
bool KnowsFiles();
// Says that directories which are open may have other names from now on.
void DirectoriesMayHaveMoved();
// Does so if a renamed file is a directory. It asks the system only if names of directories are used. Preserves errno.
void NoteRenamed(const char* new_path);

inline bool IsLiveFile(const ShmFile* file) { return file != nullptr && (file->flags.load(kRelaxed) & kFlagDead) == 0; }

constexpr uint8_t LaneOf(Operation operation) { return kOperations[static_cast<uint32_t>(operation)].lane; }

// IsSameObject() returns whether the object of an operation is still what it was when the operation began, at VersionFor(). A socket may be
// closed, and its slot another's, while threads wait in calls on it; the slot of a file stays while a descriptor names it.
PFS_ALWAYS_INLINE uint32_t VersionFor(const ShmFile& file, Operation operation) {
  return IsOfSocket(operation) ? file.version.load(kRelaxed) : 0;
}
PFS_ALWAYS_INLINE bool IsSameObject(const ShmFile& file, Operation operation, uint32_t version) {
  if ((file.flags.load(kRelaxed) & kFlagDead) != 0) return false;
  return !IsOfSocket(operation) || file.version.load(kRelaxed) == version;
}
PFS_ALWAYS_INLINE bool HasObject(const FileWait& call, Operation operation) { return IsSameObject(*call.file, operation, call.version); }

PFS_ALWAYS_INLINE void AddToFile(const FileWait& call, Operation operation, bool timed, uint64_t wait_ps, uint64_t bytes) {
  ThreadState& thread = *call.wait.thread;
  const uint8_t lane = LaneOf(operation);
  ShmFile* const file = call.file;
  if (file != nullptr && __builtin_expect(HasObject(call, operation), 1)) {
    const auto index = static_cast<uint32_t>(file - g_runtime.files);
    const uint32_t* const generation = IsOfSocket(operation) ? &call.version : nullptr;
    ShmCell* const cell = FindCellAtHead(thread, CellKind::kFile, index, file->version, lane, file->lanes[lane], &file->flags, generation);
    if (__builtin_expect(cell != nullptr, 1))
      return AddToCell(*cell, Generation(ObjectDomain(IoGroupOf(operation))), timed, wait_ps, bytes);
  }
  AddToClass(thread, call.wait.class_index, lane, timed, wait_ps, bytes, 1);
}

// Does all that follows the timer at the end of an operation. `on_file` may change the file once the event has been counted on it.
template <typename OnFile>
PFS_ALWAYS_INLINE void FinishFileWait(const FileWait& call, Operation operation, const EndedWait& ended, uint64_t bytes,
                                      uint64_t more_state_bits, OnFile on_file) {
  const uint64_t nesting = CloseRecord(call.wait, ended, more_state_bits);
  const uint64_t wait_ps = DurationOf(call.wait, ended);
  AddToFile(call, operation, ended.timed, wait_ps, bytes);
  on_file();
  AddToThreadCell(ThreadCell(call.wait), ended.timed, wait_ps);
  LeaveProbe(*call.wait.thread, nesting);
}

// requested_bytes -1: NUMBER_OF_BYTES is NULL.
PFS_ALWAYS_INLINE WaitDetails DetailsOf(const ShmFile& file, int64_t requested_bytes) {
  const uint64_t name = file.name.load(kRelaxed);
  const uint64_t name_bit = __builtin_expect(name != 0, 1) ? kRecordHasName : 0;
  return {(requested_bytes >= 0 ? kRecordHasBytes : 0) | name_bit, static_cast<uint64_t>(requested_bytes), name << 32, name >> 32};
}
// OBJECT_INSTANCE_BEGIN. offset -1: none; else it is shown instead: the offset of a seek.
PFS_ALWAYS_INLINE uint64_t ObjectOf(const ShmFile& file, int64_t offset) {
  return offset >= 0 ? static_cast<uint64_t>(offset) : reinterpret_cast<uintptr_t>(&file) - reinterpret_cast<uintptr_t>(g_runtime.header);
}

// Every Begin: false = do the operation plainly and call no End. Every End preserves errno.

PFS_ALWAYS_INLINE bool BeginFileWait(FileWait* call, ShmFile* file, uint32_t flags, Operation operation, int64_t requested_bytes,
                                     int64_t offset, const char* source_file, uint32_t line) {
  call->file = file;
  call->operation = operation;
  call->version = VersionFor(*file, operation);
  return BeginWait<true>(call->wait, flags, file->class_index.load(kRelaxed), operation, ObjectOf(*file, offset), source_file, line,
                         DetailsOf(*file, requested_bytes));
}

// bytes < 0: the call failed, and errno says why: adds 0 bytes (semantics.md H10).
constexpr uint64_t Moved(int64_t bytes) { return bytes > 0 ? static_cast<uint64_t>(bytes) : 0; }
PFS_ALWAYS_INLINE void EndFileWait(const FileWait& call, Operation operation, int64_t bytes, const EndedWait& ended) {
  // A record that was taken away meanwhile is another event's by now.
  if (ShmWaitRecord* record = Launder(call.wait.record);
      record != nullptr && (call.wait.begun_state & kRecordHasBytes) != 0 && record->state.load(kRelaxed) == call.wait.begun_state) {
    record->details().bytes.store(Moved(bytes), kRelease);  // pairs with EventReader::CopyChunk
  }
  if (bytes < 0) CountFailedWait(call.wait, operation, ended, errno);
  FinishFileWait(call, operation, ended, Moved(bytes), 0, [] {});
}
PFS_ALWAYS_INLINE void EndFileWait(const FileWait& call, Operation operation, int64_t bytes) {
  EndFileWait(call, operation, bytes, EndWait(call.wait));
}

// Ends an operation that its thread was cancelled in. Out of line.
[[gnu::noinline]] void EndCancelledFileWait(const FileWait& call);

// A call on a descriptor. `call()` makes it, `bytes_of(result)` says how much it moved, -1 = none. The functions below get it beside the
// file and the operation: those stay in registers, and the operation stays a constant.
template <typename Operate, typename Bytes>
struct FileCall {
  int64_t requested_bytes, offset;
  Operate call;
  Bytes bytes_of;
};

// A call on a descriptor without its type: calls that programs seldom make share one body, which asks it by pointers. Compiled for each of
// them, the paths of an operation would be most of the library's code. REQUIRES: the call outlives it.
struct AnyFileCall {
  int64_t (*make)(const void*);
  int64_t (*moved)(const void*, int64_t result);
  const void* call;
};
// Does the whole operation. kShowsBytes: as requested_bytes >= 0, which it must be then.
template <bool kShowsBytes>
int64_t AnyDescriptorOperation(int fd, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file, uint32_t line,
                               const AnyFileCall& call);

// Does the whole operation on the slow path: begin, the real call, end. A thread that is cancelled in the call ends its event as failed.
template <typename Operate, typename Bytes>
[[gnu::noinline]] auto SlowFileOperation(ShmFile* file, Operation operation, const FileCall<Operate, Bytes>& wanted,
                                         const char* source_file, uint32_t line) -> decltype(wanted.call()) {
  const uint32_t flags = file->flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return wanted.call();
  int64_t offset = wanted.offset;
  if (__builtin_expect(((flags & kFlagSocket) != 0) != IsOfSocket(operation), 0)) {
    // A file's operation on a socket is what sockets call it, or no event; a socket's on a file is no event.
    operation = OnSocket(operation);
    if (operation == Operation::kNone) return wanted.call();
    offset = -1;
  }
  FileWait wait;
  if (!BeginFileWait(&wait, file, flags, operation, wanted.requested_bytes, offset, source_file, line)) return wanted.call();
  decltype(wanted.call()) result;
  try {
    result = wanted.call();
  } catch (...) {                     // the unwinding of pthread_cancel
    const FileWait cancelled = wait;  // its address is taken here, and not that of `wait`, which then lives in registers
    EndCancelledFileWait(cancelled);
    throw;
  }
  EndFileWait(wait, operation, wanted.bytes_of(result));
  return result;
}

// ---- What keeps a file: descriptors, and operations on its name. None needs the cold lock -------------------------------------------

// Keeps a file, as a descriptor or an operation does, if it is live and still has that name. The name was the file's when it was found, and
// no two files have the same word, so this file is that one.
bool KeepFile(ShmFile& file, uint64_t name);
// Lets it go again.
void ReleaseFile(ShmFile& file);
// The same for a descriptor that is closed, perhaps in a forked child before its first event.
void ReleaseClosedFile(ShmFile& file);
// Returns what the descriptor names. It names nothing from here on, and its part in the file is the caller's.
ShmFile* TakeDescriptor(int fd);
// Gives a descriptor to the file that had the name when the call began. Returns false if it cannot.
bool GiveDescriptorWithoutLock(int fd, ShmFile& file, uint64_t name);

// ---- Creating and destroying a ShmFile. All but MakeFileWithoutLock() REQUIRE the cold lock -------------------------------------------

// Returns a slot for an object of the class, not yet live, or nullptr if the array is full, which is not counted.
ShmFile* AllocateFileSlot(uint32_t class_index);
// Takes `name` for it; empty: none.
void SetFileName(ShmFile& file, std::string_view name);
// All its fields are set: it is live from here on. `state`: kFileTemporary and the like.
void PublishFile(ShmFile& file, uint32_t class_index, uint32_t state);
// The descriptor is another's now, or nobody's. A file or a socket that disappears with it is buried.
void ForgetDescriptor(int fd);
// REQUIRES: fd < g_runtime.max_descriptors, and it names nothing.
void GiveDescriptor(int fd, ShmFile& file);
// In a forked child: sockets that another thread of the parent was closing are nobody's here. Descriptors are counted again where the copy
// of the segment may not agree with them.
void ForgetSocketsInChild();
// Gives a descriptor to the file of that name, which is made if there is none. Returns nullptr, and counts a loss, if it cannot be made.
// `own_name`: a copy of the name that a new file takes; 0 = there is none.
ShmFile* BindDescriptor(uint32_t class_index, int fd, std::string_view name, uint64_t* own_name, bool temporary);
// Takes slots in advance, with the thread's cells, for the next files of the calling thread.
void TakeFilesInAdvance(uint32_t class_index);
// Makes a file of the name `word`, which it takes, and gives it the descriptor. Returns nullptr if it cannot: there may be such a file; the
// thread has no slot; another thread, or an outsider, holds it up. Needs no lock.
ShmFile* MakeFileWithoutLock(uint32_t class_index, int fd, uint64_t word);
// Does what is left to do for a file that nothing keeps. Nothing is done twice, whichever thread comes, and if the slot is another file's
// by now.
void BuryIfUnused(ShmFile& file);
// Its row disappears, its statistics move to its class. The slot stays while open_count says so.
void RetireFile(ShmFile& file);

// ---- Begin and end apart: calls after which there is another file, or another name.

// An event whose object is known by class only. REQUIRES: a class of files or sockets.
bool BeginOnClass(FileWait* call, uint32_t class_index, Operation operation, const WaitDetails& details, const char* source_file,
                  uint32_t line);
// Now that the file is known, its event shows it, and counts everywhere for the file's instrument, whatever key the call was made with.
void NameRecord(FileWait& call, const ShmFile* file, uint64_t* more_state_bits);

// What a call on a name returns that failed, and what an end gets instead if the thread was cancelled in the call.
inline constexpr int kFailed = -1, kCancelled = -2;

// `path` nullptr: the call makes the name. `fd`: the new descriptor, kFailed, or kCancelled.
bool BeginFileOpen(NamedFileWait* call, uint32_t key, Operation operation, const char* path, int open_flags, const char* source_file,
                   uint32_t line);
void EndFileOpen(NamedFileWait* call, const char* path, int fd, bool temporary);

// Begins and ends an operation on a descriptor, by whatever path its settings allow. requested_bytes, bytes: as above. REQUIRES:
// kFlagEnabled is set in `flags`, those of the file, and the operation is one that it can have.
bool BeginFileOperation(FileWait* call, ShmFile* file, uint32_t flags, Operation operation, int64_t requested_bytes,
                        const char* source_file, uint32_t line);
void EndFileOperation(FileWait* call, int64_t bytes);

// Forgets the descriptor before it is closed: another thread may get the same number at once.
bool BeginFileClose(FileWait* call, int fd, const char* source_file, uint32_t line);
void EndFileClose(FileWait* call, int rc);

// Notes what an operation on a name has found, for FindRecentFile().
void NoteRecentFile(const NamedFileWait& call, const char* path);
// Looks for a file that has just this absolute name. Returns its instrument, 0 if there is none. REQUIRES: the name may be read, as below.
uint32_t FindRecentFile(NamedFileWait* call, const char* path);
// The same, and looks then for a name that no file had when the same site (as a begin has it in source_file) last called with it. It holds
// that name.
uint32_t FindKnownName(NamedFileWait* call, const char* path, const char* site);
// Begins an open or another operation on a name that FindRecentFile() or FindKnownName() has found, for that instrument. Returns false if
// it is disabled: then the caller begins for an instrument of its own.
bool BeginOnKnownName(NamedFileWait* call, uint32_t class_index, Operation operation, uint64_t state_bits, uint32_t open_flags,
                      const char* source_file, uint32_t line);

// Operations that name a file: stat, delete, rename, truncate, mkdir, rmdir.
bool BeginFileName(NamedFileWait* call, uint32_t key, Operation operation, const char* path, const char* source_file, uint32_t line);
void EndFileName(NamedFileWait* call, const char* path, int rc);
// These two also take call = nullptr: no event (instrument off, say), but the file is gone or has another name all the same.
void EndFileDelete(NamedFileWait* call, const char* path, int rc);
void EndFileRename(NamedFileWait* call, const char* old_path, const char* new_path, int rc);

// Follows a descriptor that was opened elsewhere. `shown`: FILE_NAME, of a FileName if it is a path. Returns false if the key is bad, the
// instrument is off, or the array is full.
bool BindFile(uint32_t key, int fd, std::string_view shown);
void UnbindFile(int fd);

}  // namespace perfschema
