// segment_fuzz.cpp: a real segment, damaged in any way, attached and read: every table of it. libFuzzer calls it (segment.sh); with
// PFS_FUZZ_ALONE it makes its own damage (tests/cpp/segment_test.cpp). PFS_FUZZ_SEGMENT names the segment: the smaller the better.
//
// The input is a byte that says which eighth of the tables is read (all, if it is 255) and how, and a list of changes of 16 bytes each:
// where (a word of the header, of the directory, of an element of an array, of any page that has memory, of what the header says of sizes),
// and what (a number as it is, a small one, one of those that break things, a bit, a difference). The segment is there twice: as a file,
// that is attached, and in memory of exactly its size, with each array at its address, so that a sanitizer sees a byte too many. Tables are
// read through the mappings of the file, where whatever lies outside of an extent is a fault, or through the copy.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "shm/attach.h"
#include "shm/extents.h"
#include "table/table_def.h"

#if defined(__SANITIZE_ADDRESS__) || (defined(__clang__) && !defined(PFS_FUZZ_ALONE))
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes) ((void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) ((void)(bytes))
#endif

using namespace perfschema;

// A reader naps where a writer may go on meanwhile. Nobody does here.
extern "C" int nanosleep(const timespec*, timespec*) { return 0; }

namespace {

void Require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "segment_fuzz: %s\n", what);
  std::abort();
}

struct Change {
  uint8_t where, what;
  uint16_t which;  // array
  uint32_t place;
  uint64_t value;
};
static_assert(sizeof(Change) == 16);

// Threads: one.
class Image {
 public:
  explicit Image(const char* path) {
    const int from = open(path, O_RDONLY);
    struct stat info;
    Require(from >= 0 && fstat(from, &info) == 0, "PFS_FUZZ_SEGMENT does not name a segment");
    file_bytes_ = static_cast<size_t>(info.st_size);
    Require(pread(from, header_.bytes, sizeof header_.bytes, 0) == sizeof header_.bytes, "cannot read the header");
    bytes_ = header_.words.segment_bytes;
    LookUpPieces();
    // As a mapping begins, on a page, and with one behind it that nobody may touch.
    pages_ = (bytes_ + 4095) / 4096 * 4096;
    void* const room = mmap(nullptr, pages_ + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Require(room != MAP_FAILED, "no memory for a copy");
    copy_ = static_cast<uint8_t*>(room);
    Require(mprotect(copy_ + pages_, 4096, PROT_NONE) == 0, "cannot protect a page");
    ASAN_POISON_MEMORY_REGION(copy_ + bytes_, pages_ - bytes_);
    file_ = "/dev/shm/pfs-segment-fuzz-" + std::to_string(getpid());
    const int to = open(file_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    Require(to >= 0 && ftruncate(to, info.st_size) == 0, "cannot make a file");
    shared_ = static_cast<uint8_t*>(mmap(nullptr, file_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, to, 0));
    close(to);
    Require(shared_ != MAP_FAILED, "cannot map the file");
    std::vector<uint8_t> data;
    for (off_t begin = 0; (begin = lseek(from, begin, SEEK_DATA)) >= 0;) {
      const off_t hole = lseek(from, begin, SEEK_HOLE);
      data.resize(static_cast<size_t>(hole - begin));
      Require(pread(from, data.data(), data.size(), begin) == hole - begin, "cannot read the segment");
      Store(static_cast<uint64_t>(begin), data.data(), data.size());
      runs_.push_back({static_cast<uint64_t>(begin), static_cast<uint64_t>(hole), true});
      words_ += data.size() / 8;
      begin = hole;
    }
    close(from);
  }
  ~Image() {
    ASAN_UNPOISON_MEMORY_REGION(copy_ + bytes_, pages_ - bytes_);
    munmap(copy_, pages_ + 4096);
    munmap(shared_, file_bytes_);
    unlink(file_.c_str());
  }

  const std::string& file() const { return file_; }
  const uint8_t* copy() const { return copy_; }
  size_t bytes() const { return bytes_; }  // of addresses
  size_t file_bytes() const { return file_bytes_; }
  const ShmHeader& header() const { return header_.words; }  // as it was made

  void Make(const Change& change) {
    const uint64_t at = PlaceOf(change);
    if (at + 8 > file_bytes_ || !HasMemory(at) || !HasMemory(at + 7)) return;
    uint64_t old = 0, value = change.value;
    std::memcpy(&old, shared_ + at, sizeof old);
    static constexpr uint64_t kBad[] = {0,
                                        1,
                                        2,
                                        3,
                                        0x7fffffff,
                                        0x80000000,
                                        0xffffffff,
                                        0x100000000,
                                        ~uint64_t{0},
                                        ~uint64_t{0} / 3,
                                        uint64_t{1} << 40,
                                        uint64_t{1} << 63,
                                        0x8000000000000001,
                                        64,
                                        4096,
                                        65535};
    switch (change.what % 6) {
      case 0:
        break;
      case 1:
        value %= 64;
        break;
      case 2:
        value = kBad[value % std::size(kBad)];
        break;
      case 3:
        value = old ^ uint64_t { 1 } << value % 64;
        break;
      case 4:
        value = old + value % 16 - 8;
        break;
      default:
        value = (old & ~uint64_t{0xffffffff}) | (value & 0xffffffff);
        break;
    }
    undo_.push_back({at, old});
    Store(at, &value, sizeof value);
  }
  void Restore() {
    for (; !undo_.empty(); undo_.pop_back()) Store(undo_.back().at, &undo_.back().old, sizeof undo_.back().old);
  }

 private:
  struct Undo {
    uint64_t at, old;
  };
  // As it was made, whatever has been done to the copy.
  union Header {
    Header() {}
    ~Header() {}
    uint8_t bytes[sizeof(ShmHeader)];
    ShmHeader words;
  };

  // An extent, and where its bytes begin in the copy.
  struct Piece {
    uint64_t in_file, bytes, address;
  };

  void LookUpPieces() {
    pieces_.push_back({0, kHeaderCapacity, 0});
    for (uint32_t i = 0; i < kArrayCount; ++i) {
      const ShmArray& array = header_.words.arrays[i];
      for (const FilePiece& piece : PiecesOf(array, 0, array.mapped.load()))
        pieces_.push_back({piece.in_file, piece.bytes, array.offset + piece.begin});
    }
  }
  // Where a byte of an array lies in the file.
  uint64_t PlaceInArray(const ShmArray& array, uint64_t byte) const {
    const uint64_t mapped = array.mapped.load();
    for (const FilePiece& piece : PiecesOf(array, std::min(byte, mapped), std::min(byte + 1, mapped))) return piece.in_file;
    return ~uint64_t{0} / 2;
  }
  void Store(uint64_t at, const void* from, uint64_t bytes) {
    std::memcpy(shared_ + at, from, bytes);
    for (const Piece& piece : pieces_) {
      const uint64_t begin = std::max(at, piece.in_file), end = std::min(at + bytes, piece.in_file + piece.bytes);
      if (begin < end)
        std::memcpy(copy_ + piece.address + begin - piece.in_file, static_cast<const uint8_t*>(from) + (begin - at), end - begin);
    }
  }
  bool HasMemory(uint64_t at) const {
    for (const ByteRun& run : runs_) {
      if (at >= run.begin && at < run.end) return true;
    }
    return false;
  }
  uint64_t PlaceOf(const Change& change) const {
    const ShmArray& array = header_.words.arrays[change.which % kArrayCount];
    switch (change.where % 5) {
      case 0:
        return change.place % (sizeof(ShmHeader) / 4) * 4;
      case 1: {
        const uint64_t word = change.place % 12;  // the first extents: of few arrays there are more
        return offsetof(ShmHeader, arrays) + change.which % kMostArrays * sizeof(ShmArray) +
               (word < 8 ? word * 8 : offsetof(ShmArray, extents) + (word - 8) * 4);
      }
      case 2: {
        const uint64_t used = std::max<uint64_t>(array.used.load(), 1);
        return PlaceInArray(array, change.place % used * array.stride + (change.place >> 16) % std::max<uint64_t>(array.stride / 4, 1) * 4);
      }
      case 3: {
        static constexpr size_t kSizes[] = {offsetof(ShmHeader, file_bytes), offsetof(ShmHeader, segment_bytes),
                                            offsetof(ShmHeader, header_bytes), offsetof(ShmHeader, array_count)};
        return kSizes[change.place % std::size(kSizes)];
      }
      default: {
        uint64_t word = change.place % words_;
        for (const ByteRun& run : runs_) {
          if (word < (run.end - run.begin) / 8) return run.begin + word * 8;
          word -= (run.end - run.begin) / 8;
        }
        return 0;
      }
    }
  }

  std::string file_;
  size_t file_bytes_ = 0, bytes_ = 0, pages_ = 0;
  uint8_t* copy_ = nullptr;
  uint8_t* shared_ = nullptr;
  std::vector<Piece> pieces_;
  std::vector<ByteRun> runs_;  // of the file
  uint64_t words_ = 0;
  std::vector<Undo> undo_;
  Header header_;
};

// With an image of which nothing can be read, whatever the reason, every damage would pass.
bool ShowsThreads(const Image& image) {
  std::unique_ptr<SegmentFile> file;
  const NamedTable* threads = nullptr;
  TableData data;
  return SegmentFile::Open(image.file(), &file).ok() && FindTable("threads", &threads).ok() &&
         ReadTable(*threads, SegmentView(image.copy(), image.bytes(), file.get()), {}, &data).ok() && data.rows != 0;
}

Image& TheImage() {
  static Image image(std::getenv("PFS_FUZZ_SEGMENT") != nullptr ? std::getenv("PFS_FUZZ_SEGMENT") : "");
  static const bool is_good = ShowsThreads(image);
  Require(is_good, "nothing can be read of the segment as it was");
  return image;
}

// What whoever shows a table relies on.
void CheckTable(const NamedTable& table, const TableData& data) {
  Require(data.columns.size() == table.def->columns.size(), "columns are missing");
  for (size_t i = 0; i < data.columns.size(); ++i) {
    const ColumnData& column = data.columns[i];
    const SqlType& type = table.def->columns[i].type;
    const bool is_enum = type.kind == ColumnKind::kEnum;
    const bool is_text = is_enum || type.kind == ColumnKind::kText || type.kind == ColumnKind::kSet;
    Require((is_text ? column.codes.size() : column.words.size()) == data.rows, "a column is shorter than the table");
    Require(column.nulls.empty() || column.nulls.size() == data.rows || column.nulls.size() < data.rows, "more NULLs than rows");
    for (size_t row = 0; row < column.codes.size(); ++row) {
      const bool is_null = row < column.nulls.size() && column.nulls[row] != 0;
      Require(is_null || column.codes[row] < (is_enum ? type.values.size() : column.texts.size()), "a code without a text");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  Image& image = TheImage();
  size_t bytes = image.bytes(), number = 0;
  const unsigned group = size == 0 ? 255 : input[0];
  for (size_t at = 1; at + sizeof(Change) <= size; at += sizeof(Change)) {
    Change change;
    std::memcpy(&change, input + at, sizeof change);
    if (change.where == 255) {  // cut short
      bytes = kHeaderCapacity + change.value % (image.bytes() - kHeaderCapacity);
    } else {
      image.Make(change);
    }
  }
  const bool is_mapping = group == 255 || (group & 8) == 0;
  std::unique_ptr<SegmentFile> file;
  const Status status = SegmentFile::Open(image.file(), &file);
  Require(status.ok() == (file != nullptr), "attached, or not");
  if (file != nullptr) {
    const SegmentView mapped = file->view();
    const SegmentView view = is_mapping ? SegmentView(&mapped.header(), std::min(bytes, mapped.bytes()), file.get())
                                        : SegmentView(image.copy(), bytes, file.get());
    ASAN_POISON_MEMORY_REGION(image.copy() + bytes, image.bytes() - bytes);
    static const char* const only = std::getenv("PFS_FUZZ_TABLE");
    static const bool is_timed = std::getenv("PFS_FUZZ_TIMES") != nullptr;
    for (const NamedTable& table : AllTables()) {
      if (only != nullptr && table.name != only) continue;
      if (group != 255 && number++ % 8 != group % 8) continue;
      if (table.name == "performance_timers") continue;  // measures clocks, and reads no segment
      const clock_t start = clock();
      TableData data;
      Require(ReadTable(table, view, {}, &data).ok(), "a table cannot be read");
      CheckTable(table, data);
      if (is_timed)
        std::fprintf(stderr, "%8.1f ms %9zu rows  %s\n", double(clock() - start) * 1e3 / CLOCKS_PER_SEC, data.rows, table.name.data());
    }
    ASAN_UNPOISON_MEMORY_REGION(image.copy() + bytes, image.bytes() - bytes);
  }
  image.Restore();
  return 0;
}

#ifdef PFS_FUZZ_ALONE
#include <random>

Change RandomChange(std::mt19937_64& random) {
  const uint64_t dice = random();
  return {static_cast<uint8_t>(dice % 64 == 0 ? 255 : dice % 5), static_cast<uint8_t>(dice >> 8), static_cast<uint16_t>(dice >> 16),
          static_cast<uint32_t>(dice >> 32), random()};
}

void DamageAndRead(long rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (long round = 0; round < rounds; ++round) {
    std::string input(1, static_cast<char>(random()));
    for (uint64_t count = random() % 24; count != 0; --count) {
      const Change change = RandomChange(random);
      input.append(reinterpret_cast<const char*>(&change), sizeof change);
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}
#endif
