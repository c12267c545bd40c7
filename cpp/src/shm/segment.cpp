#include "shm/segment.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "perfschema/pfs.h"
#include "shm/attach.h"
#include "shm/place.h"
#include "shm/shapes.h"

namespace perfschema {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

constexpr uint64_t kElementBytes[kArrayCount] = {
#define X(name, type) sizeof(type),
    PFS_FOR_EACH_ARRAY(X)
#undef X
};

uint64_t RecordBytesFor(Kind kind, const Options& options) {
  return RecordBytes(kind, static_cast<uint64_t>(options.Get(OptionId::max_sql_text_length)),
                     static_cast<uint64_t>(options.Get(OptionId::max_digest_length)));
}

// An element of an array of records is the room of a chunk.
uint64_t Stride(ArrayId id, const Options& options) {
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    if (kRecordsOf[kind] == id) return ChunkPitch(static_cast<Kind>(kind), RecordBytesFor(static_cast<Kind>(kind), options));
  }
  const uint64_t sql = RoomForText(static_cast<uint64_t>(options.Get(OptionId::max_sql_text_length)));
  const uint64_t tokens = RoomForText(static_cast<uint64_t>(options.Get(OptionId::max_digest_length)));
  const uint64_t behind = id == ArrayId::kDigests ? tokens + sql : id == ArrayId::kPrepared ? sql : 0;
  return kElementBytes[static_cast<uint32_t>(id)] + RoundUp(behind, 64);  // those with something behind them are whole lines
}

// Elements of each array for these options. Index 0 of every array stays unused, so that zero bytes mean "no reference".
uint64_t Capacity(ArrayId id, const Options& options) {
  const auto get = [&](OptionId option) { return static_cast<uint64_t>(options.Get(option)); };
  uint64_t classes = 1;  // and the single instruments
  for (const FamilyFacts& facts : kFamilies) classes += facts.is_single ? ColumnsOf(facts.kind) : 0;
  classes += get(OptionId::max_stage_classes) + get(OptionId::max_statement_classes) * ColumnsOf(Kind::kStatement) +
             get(OptionId::max_memory_classes) * ColumnsOf(Kind::kMemory);
  classes += std::min(get(OptionId::error_size), kMostErrors) + get(OptionId::max_status_variables);
  for (const OptionId option : {OptionId::max_mutex_classes, OptionId::max_rwlock_classes, OptionId::max_cond_classes, OptionId::max_file_classes,
                                OptionId::max_socket_classes, OptionId::max_thread_classes}) {
    classes += get(option);
  }
  const uint64_t threads = get(OptionId::max_thread_instances) + 1;
  for (uint32_t i = 0; i < kEventKinds; ++i) {
    if (id != kChunksOf[i] && id != kRecordsOf[i]) continue;
    const auto kind = static_cast<Kind>(i);
    const uint64_t of_thread = ChunksOfThread(ChunksHeldByThread(kind, get(kPools[i].history_size))) + MostOpen(kind, get(OptionId::max_statement_stack));
    return ChunksInPool(MostChunksFor(kind, get(kPools[i].history_long_size))) + threads * of_thread + 1;
  }
  const uint64_t instances = get(OptionId::max_mutex_instances) + get(OptionId::max_rwlock_instances) + get(OptionId::max_cond_instances);
  const uint64_t columns = RoundUp(classes, kPage / sizeof(ShmCell));
  const auto with_zero = [&](OptionId option) { return get(option) + 1; };
  switch (id) {
    case ArrayId::kClasses: return classes;
    case ArrayId::kThreads:
    case ArrayId::kSpares: return threads;
    case ArrayId::kThreadCells: return threads * columns;
    case ArrayId::kAccounts: return with_zero(OptionId::accounts_size);
    case ArrayId::kAccountCells: return with_zero(OptionId::accounts_size) * columns;
    case ArrayId::kUsers: return with_zero(OptionId::users_size);
    case ArrayId::kUserCells: return with_zero(OptionId::users_size) * columns;
    case ArrayId::kHosts: return with_zero(OptionId::hosts_size);
    case ArrayId::kHostCells: return with_zero(OptionId::hosts_size) * columns;
    case ArrayId::kGlobalCells: return threads * columns;  // 0: what no host keeps; else what a thread's slot counted for nobody
    case ArrayId::kActors: return with_zero(OptionId::setup_actors_size);
    case ArrayId::kObjectRules: return with_zero(OptionId::setup_objects_size);
    case ArrayId::kInstances:
    case ArrayId::kInstanceLists: return instances + 1;
    case ArrayId::kFiles: return get(OptionId::max_file_instances) + get(OptionId::max_socket_instances) + 1;
    case ArrayId::kTables: return with_zero(OptionId::max_table_instances);
    case ArrayId::kIndexes: return with_zero(OptionId::max_index_stat);
    case ArrayId::kTableHandles: return with_zero(OptionId::max_table_handles);
    case ArrayId::kMetadataLocks: return with_zero(OptionId::max_metadata_locks);
    case ArrayId::kCells: return get(OptionId::max_object_cells) + classes * kMostLanes + 1;  // and those of the classes themselves
    case ArrayId::kStatementCells: return get(OptionId::max_object_cells) / 4 + 1;
    case ArrayId::kDigests: return with_zero(OptionId::digests_size);
    case ArrayId::kPrograms: return with_zero(OptionId::max_program_instances);
    case ArrayId::kPrepared: return with_zero(OptionId::max_prepared_statements_instances);
    case ArrayId::kGraves: return 16384;
    case ArrayId::kNames:
      return get(OptionId::max_file_instances) * 4 + get(OptionId::max_socket_instances) * 2 +
             (get(OptionId::max_table_instances) + get(OptionId::max_index_stat)) * 3 + get(OptionId::max_metadata_locks) * 4 +
             get(OptionId::max_program_instances) * 3 + 64;
    case ArrayId::kSources: return get(OptionId::max_source_locations) + 1;
    case ArrayId::kFacts: return with_zero(OptionId::max_program_rows);
    case ArrayId::kFactBlocks: return get(OptionId::max_program_rows) * kBlocksPerFact + 1;
    case ArrayId::kErrorLog: return kLogUnits + 1;
    default: break;
  }
  return 0;
}

// Where everything lies in a segment with these options.
struct Plan {
  explicit Plan(const Options& options) : bytes(kHeaderRoom) {
    for (uint32_t i = 0; i < kArrayCount; ++i) {
      const auto id = static_cast<ArrayId>(i);
      arrays[i] = {bytes, Stride(id, options), Capacity(id, options)};
      bytes = RoundUp(bytes + arrays[i].capacity * arrays[i].stride, kPage);
    }
  }
  struct Place {
    uint64_t offset, stride, capacity;
  };
  Place arrays[kArrayCount];
  uint64_t bytes;
};

void FillIdentity(ShmHeader* header) {
  header->pid = static_cast<uint64_t>(getpid());
  header->pid_namespace = PidNamespace();
  ProcessFacts self;
  header->process_start_ticks = ReadProcessFacts(0, &self) ? self.start_ticks : 0;
  const std::string boot = BootId();
  std::memcpy(header->boot_id, boot.data(), std::min(boot.size(), sizeof header->boot_id));
  std::memset(header->library_version, 0, sizeof header->library_version);
  std::memcpy(header->library_version, PFS_VERSION, std::min(sizeof PFS_VERSION, sizeof header->library_version) - 1);
  char command[sizeof header->command + 1] = {};  // whoever cuts it short: the rest is zero
  (void)ReadSmallFile("/proc/self/cmdline", command, sizeof command);
  std::memcpy(header->command, command, sizeof header->command);
}

}  // namespace

uint64_t SegmentView::used(ArrayId id) const {
  const ShmArray& array = header().arrays[static_cast<uint32_t>(id)];
  return std::min(array.used.load(kAcquire), array.capacity);
}

const void* SegmentView::Element(ArrayId id, uint64_t index, size_t size) const {
  const ShmArray& array = header().arrays[static_cast<uint32_t>(id)];
  const uint64_t offset = array.offset, stride = array.stride, capacity = array.capacity;
  if (index >= capacity || stride < size || stride > bytes_ || offset >= bytes_ || offset % alignof(uint64_t) != 0) return nullptr;
  if (index > (bytes_ - offset) / stride) return nullptr;
  const uint64_t at = offset + index * stride;
  return bytes_ - at < size ? nullptr : base_ + at;
}

ByteRun SegmentView::RunAt(uint64_t offset, uint64_t wanted) const { return file_ == nullptr ? ByteRun{0, bytes_, true} : file_->RunAt(offset, wanted); }

bool Segment::OpenFile(size_t bytes, std::string* reason) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    *reason = "the file size limit (ulimit -f) is below the " + std::to_string(bytes) + " bytes of a segment";
    return false;
  }
  std::string path, remark;
  mode_t mode = 0600;
  const int fd = MakeSegmentFile(&path, &mode, &remark, reason);
  if (fd < 0) return false;
  int error = 0;
  void* mapped = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    error = errno;
  } else {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (mapped == MAP_FAILED) error = errno;
  }
  if (error == 0) error = posix_fallocate(fd, 0, static_cast<off_t>(kHeaderRoom));
  if (error == 0 && fchmod(fd, mode) != 0) error = errno;  // whatever the umask
  close(fd);  // the program may close descriptors that it does not know: none of ours is left for it
  if (error != 0) {
    *reason = Reason("cannot make room for the file", path, error);
    if (mapped != MAP_FAILED) munmap(mapped, bytes);
    unlink(path.c_str());
    return false;
  }
  base_ = static_cast<char*>(mapped);
  bytes_ = bytes;
  path_ = path;
  if (!remark.empty()) *reason = remark;
  return true;
}

Status Segment::Create(const Options& options, std::string* reason, bool is_private) {
  const Plan plan(options);
  const uint64_t bytes = plan.bytes;
  const char* mode = secure_getenv("PFS_SEGMENT");
  is_private = is_private || (mode != nullptr && std::strcmp(mode, "private") == 0);
  if (is_private || !OpenFile(bytes, reason)) {
    if (!MapPrivate(bytes)) {
      *reason = Reason("cannot map", std::to_string(bytes) + " bytes", errno);
      return Status(Code::kIo, *reason);
    }
  }
  ShmHeader* head = header();
  head->layout_major = kLayoutMajor;
  head->layout_minor = kLayoutMinor;
  head->endian_mark = kEndianMark;
  head->word_bytes = sizeof(void*);
  head->segment_bytes = bytes;
  head->header_bytes = kHeaderRoom;
  head->array_count = kArrayCount;
  FillIdentity(head);
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    ShmArray& array = head->arrays[i];
    array.offset = plan.arrays[i].offset;
    array.stride = plan.arrays[i].stride;
    array.capacity = plan.arrays[i].capacity;
    array.used.store(1, kRelaxed);  // element 0 stays unused
  }
  for (uint32_t i = 0; i < kEventKinds; ++i) head->record_bytes[i] = RecordBytesFor(static_cast<Kind>(i), options);
  std::memcpy(head->text_options, options.texts, sizeof head->text_options);
  for (uint32_t i = 0; i < kOptionCount; ++i) head->options[i] = static_cast<uint64_t>(options.Get(static_cast<OptionId>(i)));
  for (uint32_t i = 0; i < kOptionCount; ++i) head->program.option_is_set[i] = options.is_set[i] ? 1 : 0;
  return {};
}

bool Segment::MapPrivate(size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return false;
  base_ = static_cast<char*>(mapped);
  bytes_ = bytes;
  path_.clear();
  return true;
}

// Fills this fresh mapping from the parent's. False: no room.
bool Segment::CopyArrays(const char* from, bool (*keep)(ArrayId)) {
  std::memcpy(base_, from, kHeaderRoom);
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    ShmArray& array = header()->arrays[i];
    if (!keep(static_cast<ArrayId>(i))) {
      array.used.store(1, kRelaxed);
      array.reserved.store(0, kRelaxed);
      array.free_head.store(0, kRelaxed);
      continue;
    }
    // Not beyond what has memory: element 0 is never stored to, and reading a hole of a full file system is SIGBUS.
    const uint64_t bytes = std::min(array.used.load(kRelaxed) * array.stride, array.reserved.load(kRelaxed));
    array.reserved.store(RoundUp(bytes, kPage), kRelaxed);
    if (!Reserve(array.offset, bytes)) return false;
    std::memcpy(base_ + array.offset, from + array.offset, bytes);
  }
  // Each object has a list, empty in the child, that is read without asking.
  return ReserveUpTo(ArrayId::kInstanceLists, header()->arrays[static_cast<uint32_t>(ArrayId::kInstances)].used.load(kRelaxed));
}

void Segment::CopyBeforeFork(bool (*keep)(ArrayId)) {
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return;  // the child copies what it finds
  copy_ = static_cast<char*>(mapped);
  CopyFromShared(copy_, base_, kHeaderRoom);
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header()->arrays[i];
    if (!keep(static_cast<ArrayId>(i))) continue;
    CopyFromShared(copy_ + array.offset, base_ + array.offset, std::min(array.used.load(kRelaxed) * array.stride, array.reserved.load(kRelaxed)));
  }
}

void Segment::ForgetCopy() {
  if (copy_ != nullptr) munmap(copy_, bytes_);
  copy_ = nullptr;
}

void Segment::CopyForChild(bool (*keep)(ArrayId), std::string* reason) {
  char* const parent = base_;
  const char* const source = copy_ != nullptr ? copy_ : base_;
  const size_t bytes = bytes_;
  bool done = false;
  if (!path_.empty() && OpenFile(bytes, reason)) {
    done = CopyArrays(source, keep);
    if (!done) {
      *reason = "no room for the segment of a forked child";
      unlink(path_.c_str());
      munmap(base_, bytes);
    }
  }
  // The parent's file must never be written by two: without memory of its own the child has nowhere to go.
  if (!done && (!MapPrivate(bytes) || !CopyArrays(source, keep))) abort();
  // The old mapping gives way to the new one at the same addresses: every pointer of the program stays good.
  if (mremap(base_, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, parent) == MAP_FAILED) abort();
  base_ = parent;
  ForgetCopy();
  FillIdentity(header());
}

void Segment::Remove() {
  if (!path_.empty()) unlink(path_.c_str());
}

bool Segment::Reserve(uint64_t offset, uint64_t bytes) {
  if (path_.empty()) return true;
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
  // Gives every page its memory now; where there is none it fails instead of raising SIGBUS at the first store.
  const uint64_t begin = offset / kPage * kPage;
  const uint64_t end = RoundUp(offset + bytes, kPage);
  if (madvise(base_ + begin, end - begin, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  // A kernel before 5.14: through the file, found again by name.
  const int fd = open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const int error = posix_fallocate(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  close(fd);
  // Touched, or they still count as holes for whoever reads the file (shm/attach.h).
  for (uint64_t at = begin; error == 0 && at < end; at += kPage) __atomic_fetch_or(base_ + at, 0, __ATOMIC_RELAXED);
  return error == 0;
}

bool Segment::ReserveUpTo(ArrayId id, uint64_t elements) {
  ShmArray& array = this->array(id);
  const uint64_t reserved = array.reserved.load(kRelaxed);
  const uint64_t needed = elements * array.stride;
  if (needed <= reserved) return true;
  if (elements > array.capacity) return false;
  // Ahead of the need, so that a run of new objects asks the kernel rarely: 16 KiB, then a quarter of what is there.
  uint64_t goal = RoundUp(std::max(needed, reserved + std::clamp<uint64_t>(reserved / 4, 16 * 1024, 1024 * 1024)), kPage);
  goal = std::min(goal, RoundUp(array.capacity * array.stride, kPage));
  if (!Reserve(array.offset + reserved, goal - reserved)) {
    goal = RoundUp(needed, kPage);
    if (goal == reserved || !Reserve(array.offset + reserved, goal - reserved)) return false;
  }
  array.reserved.store(goal, kRelease);
  return true;
}

bool Segment::ReserveRange(ArrayId id, uint64_t begin, uint64_t end) {
  ShmArray& array = this->array(id);
  if (!Reserve(array.offset + begin, end - begin)) return false;
  array.reserved.store(array.reserved.load(kRelaxed) + end - begin, kRelease);
  return true;
}

int64_t Segment::TakeFresh(ArrayId id, uint64_t count) {
  ShmArray& array = this->array(id);
  const uint64_t index = array.used.load(kRelaxed);
  if (index + count > array.capacity || !ReserveUpTo(id, index + count)) return -1;
  array.used.store(index + count, kRelease);
  return static_cast<int64_t>(index);
}

Status Segment::Adopt(const std::string& path, Options* options, int* descriptor) {
  std::unique_ptr<SegmentFile> file;
  if (Status bad = SegmentFile::Open(path, &file); !bad.ok()) return bad;
  const ReadGuard reading(file.get());
  const SegmentView view = file->view();
  const ShmHeader& seen = view.header();
  for (uint32_t i = 0; i < kOptionCount; ++i) options->values[i] = static_cast<int64_t>(seen.options[i]);
  std::memcpy(options->texts, seen.text_options, sizeof options->texts);
  for (auto& text : options->texts) text[kTextOptionBytes - 1] = 0;
  bool is_ours = seen.layout_minor == kLayoutMinor;
  for (uint32_t i = 0; i < kOptionCount; ++i) is_ours = is_ours && options->values[i] >= kOptions[i].minimum && options->values[i] <= kOptions[i].maximum;
  const Plan plan(is_ours ? *options : Options());
  is_ours = is_ours && view.bytes() == plan.bytes;
  for (uint32_t i = 0; is_ours && i < kArrayCount; ++i) {
    const ShmArray& array = seen.arrays[i];
    const Plan::Place& place = plan.arrays[i];
    is_ours = array.offset == place.offset && array.stride == place.stride && array.capacity == place.capacity && array.used.load(kRelaxed) <= place.capacity;
  }
  if (!is_ours || !file->Check().ok()) return Status(Code::kCorrupt, path + " was written by another version of this library, or is damaged: it can be read but not changed");
  const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Status(errno == EACCES ? Code::kNotAllowed : Code::kIo, Reason("cannot open for writing", path, errno));
  struct stat info;
  void* mapped = MAP_FAILED;
  if (fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_size) == plan.bytes) mapped = mmap(nullptr, plan.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return Status(Code::kIo, Reason("cannot map", path, error));
  }
  base_ = static_cast<char*>(mapped);
  bytes_ = plan.bytes;
  path_ = path;
  *descriptor = fd;
  return {};
}

}  // namespace perfschema
