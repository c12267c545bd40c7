// capi/interpose.cpp: what a library needs that stands between a program and its functions.
#include <cerrno>
#include <new>

#include "base/clip.h"
#include "capi/call.h"
#include "record/family/lock_events.h"
#include "record/family/sockets.h"

using perfschema::FileWait;
using perfschema::NamedFileWait;
using perfschema::Operation;
using perfschema::ShmFile;
using perfschema::ShmInstance;
using namespace perfschema::capi;

static_assert(PFS_CODE == perfschema::kIsCode);

namespace {

static_assert(sizeof(NamedFileWait) <= sizeof(pfs_wait_t::opaque) && alignof(NamedFileWait) <= alignof(pfs_wait_t));

constexpr Operation kOperationOf[] = {Operation::kNone,  Operation::kRead, Operation::kWrite,  Operation::kSeek, Operation::kTell,
                                      Operation::kFlush, Operation::kStat, Operation::kChsize, Operation::kSync, Operation::kClose};

template <typename Wait>
Wait& WaitIn(pfs_wait_t* wait) {
  return *std::launder(reinterpret_cast<Wait*>(wait->opaque));
}

// The address only says that there is an event.
pfs_instance_t* Marked(pfs_wait_t* wait) { return reinterpret_cast<pfs_instance_t*>(wait); }

bool BeginOnFile(FileWait* call, int fd, Operation operation, int64_t requested_bytes, const char* file, uint32_t line) {
  ShmFile* const object = perfschema::FileOfDescriptor(fd);
  if (object == nullptr) return false;
  const uint32_t flags = object->flags.load(perfschema::kRelaxed);
  if ((flags & perfschema::kFlagEnabled) == 0) return false;
  if ((flags & perfschema::kFlagSocket) != 0) operation = perfschema::OnSocket(operation);
  if (operation == Operation::kNone) return false;
  return BeginFileOperation(call, object, flags, operation, requested_bytes, file, line);
}

}  // namespace

extern "C" {

enum pfs_fd_kind pfs_fd_kind(int fd) {
  if (perfschema::SocketOfDescriptor(fd) != nullptr) return PFS_FD_SOCKET;
  return perfschema::FileOfDescriptor(fd) != nullptr ? PFS_FD_FILE : PFS_FD_UNKNOWN;
}

int pfs_file_wait_begin_at(pfs_wait_t* wait, int fd, enum pfs_file_op op, int64_t requested_bytes, PFS_SITE_) {
  wait->instance = nullptr;
  if (op < PFS_FILE_READ || op > PFS_FILE_CLOSE) return 0;
  const Operation operation = kOperationOf[op];
  auto& call = *new (wait->opaque) FileWait;
  const bool begun = operation == Operation::kClose ? perfschema::BeginFileClose(&call, fd, file, line)
                                                    : BeginOnFile(&call, fd, operation, requested_bytes, file, line);
  if (!begun) return 0;
  wait->instance = Marked(wait);
  return 1;
}

void pfs_file_wait_end_(pfs_wait_t* wait, int64_t bytes) {
  wait->instance = nullptr;  // a second end does nothing
  perfschema::EndFileOperation(&WaitIn<FileWait>(wait), bytes);
}

int pfs_file_open_begin_at(pfs_wait_t* wait, pfs_key_t key, const char* path, int flags, PFS_SITE_) {
  wait->instance = nullptr;
  auto& call = *new (wait->opaque) NamedFileWait;
  if (IsNull(path) || !perfschema::BeginFileOpen(&call, key, Operation::kOpen, path, flags, file, line)) return 0;
  perfschema::KeepUntilEnd(call.wait);
  wait->instance = Marked(wait);
  return 1;
}

void pfs_file_open_end_(pfs_wait_t* wait, const char* path, int fd) {
  wait->instance = nullptr;
  perfschema::EndFileOpen(&WaitIn<NamedFileWait>(wait), path, fd, false);
}

int pfs_mutex_is_contended(const pfs_instance_t* instance) {
  return instance != nullptr && (__atomic_load_n(&instance->flags, __ATOMIC_RELAXED) & perfschema::kFlagContended) != 0 ? 1 : 0;
}

void pfs_mutex_counted(pfs_instance_t* instance, enum pfs_lock_op op) {
  if (!pfs_enabled_(instance)) return;
  ShmInstance& object = *perfschema::AsInstance(instance);
  const uint32_t flags = object.flags.load(perfschema::kRelaxed);
  perfschema::ThreadState* const thread = perfschema::CurrentThread();
  if (thread == nullptr || thread->inside()) return;
  if ((flags & perfschema::kFlagThread) != 0 && (thread->shared->flags.load(perfschema::kRelaxed) & perfschema::kThreadInstrumented) == 0)
    return;
  const Operation operation = op == PFS_TRY_LOCK ? Operation::kTryLock : Operation::kLock;
  (void)FinishUncontendedLock(*thread, flags, object.class_index.load(perfschema::kRelaxed), object, perfschema::HoldAfter(operation), 0);
}

char* pfs_clip(char* to, size_t size, const char* text) {
  perfschema::CopyClipped(to, text, size - 1);
  return to;
}

}  // extern "C"
