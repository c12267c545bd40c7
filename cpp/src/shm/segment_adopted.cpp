// shm/segment_adopted.cpp: maps the segment of another process, to change what its setup says or to truncate.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shm/attach.h"
#include "shm/extents.h"
#include "shm/place.h"
#include "shm/plan.h"
#include "shm/segment.h"

namespace perfschema {

Status Segment::Adopt(const std::string& path, Options* options, int* descriptor) {
  std::unique_ptr<SegmentFile> file;
  if (Status bad = SegmentFile::Open(path, &file); !bad.ok()) return bad;
  const ReadGuard reading(file.get());
  const SegmentView view = file->view();
  const ShmHeader& seen = view.header();
  for (uint32_t i = 0; i < kOptionCount; ++i) {
    options->values[i] = static_cast<int64_t>(seen.options[i]);
    options->is_set[i] = seen.program.option_is_set[i] != 0;
  }
  std::memcpy(options->texts, seen.text_options, sizeof options->texts);
  for (auto& text : options->texts) text[kTextOptionBytes - 1] = 0;
  bool is_ours = seen.layout_minor == kLayoutMinor;
  for (uint32_t i = 0; i < kOptionCount; ++i)
    is_ours = is_ours && options->values[i] >= kOptions[i].minimum && options->values[i] <= kOptions[i].maximum;
  const Plan plan(is_ours ? *options : Options());
  is_ours = is_ours && view.bytes() == plan.bytes;
  for (uint32_t i = 0; is_ours && i < kArrayCount; ++i) {
    const ShmArray& array = seen.arrays[i];
    const Plan::Place& place = plan.arrays[i];
    is_ours = array.offset == place.offset && array.stride == place.stride && array.capacity == place.capacity &&
              array.first_extent == place.first_extent && array.used.load(kRelaxed) <= place.capacity;
  }
  if (!is_ours || !file->Check().ok())
    return Status(Code::kCorrupt, path + " was written by another version of this library, or is damaged: it can be read but not changed");
  const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Status(errno == EACCES ? Code::kNotAllowed : Code::kIo, Reason("cannot open for writing", path, errno));
  struct stat info {};
  is_adopted_ = true;
  const bool is_mapped = fstat(fd, &info) == 0 && range_.Find(plan.bytes, AddressRange::Prefer::kReserved) &&
                         range_.MapFile(0, kHeaderCapacity, PROT_READ | PROT_WRITE, fd, 0) && FollowGrowth(fd);
  if (!is_mapped) {
    const int error = errno;
    close(fd);
    return Status(Code::kIo, Reason("cannot map", path, error));
  }
  path_[path.copy(path_, kMostPath - 1)] = 0;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  is_shared_ = wants_file_ = true;
  *descriptor = fd;
  return {};
}

bool Segment::FollowGrowth(int descriptor) {
  uint64_t length = 0;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header()->arrays[i];
    const uint64_t mapped = std::min(array.mapped.load(kAcquire), WholeBytes(array));  // pairs with MapUpTo
    for (const FilePiece& piece : PiecesOf(array, adopted_[i], mapped)) {
      if (const uint64_t end = piece.in_file + piece.bytes; end > length) {
        // The length must be younger than the piece: a program that grows now makes its file longer first.
        struct stat info {};
        if (fstat(descriptor, &info) != 0) return false;
        length = static_cast<uint64_t>(info.st_size);
        if (end > length) {
          errno = ENXIO;  // the file was cut
          return false;
        }
      }
      if (!range_.MapFile(array.offset + piece.begin, piece.bytes, PROT_READ | PROT_WRITE, descriptor, piece.in_file)) return false;
      adopted_[i] = piece.begin + piece.bytes;
    }
  }
  return true;
}

}  // namespace perfschema
