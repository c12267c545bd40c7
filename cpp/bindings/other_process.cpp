#include "other_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace perfschema::bindings {

ProcessMemory::ProcessMemory(pid_t pid) : pid_(pid), fd_(open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR | O_CLOEXEC)) {}

ProcessMemory::~ProcessMemory() {
  if (fd_ >= 0) close(fd_);
}

bool ProcessMemory::Read(uint64_t from, void* to, size_t bytes) const {
  return pread(fd_, to, bytes, static_cast<off_t>(from)) == static_cast<ssize_t>(bytes);
}

bool ProcessMemory::Write(uint64_t to, const void* from, size_t bytes) const {
  return pwrite(fd_, from, bytes, static_cast<off_t>(to)) == static_cast<ssize_t>(bytes);
}

std::vector<MappedRange> ProcessMemory::Ranges() const {
  std::vector<MappedRange> ranges;
  FILE* const file = fopen(("/proc/" + std::to_string(pid_) + "/maps").c_str(), "re");
  if (file == nullptr) return ranges;
  constexpr size_t kMost = 1 << 18, kMostBytes = 16 << 20;
  size_t bytes = 0;
  char* line = nullptr;
  size_t size = 0;
  while (getline(&line, &size, file) > 0) {
    MappedRange range;
    char protection[8];
    int path = 0;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &range.begin, &range.end, protection, &range.offset,
                    &path) < 4) {
      continue;
    }
    range.protection = protection;
    range.path.assign(line + path, std::strcspn(line + path, "\n"));
    bytes += range.path.size();
    if (ranges.size() == kMost || bytes > kMostBytes) {
      ranges.clear();
      break;
    }
    ranges.push_back(std::move(range));
  }
  std::free(line);
  fclose(file);
  return ranges;
}

MappedObject::MappedObject(const ProcessMemory& memory, const MappedRange& first, ReadingLimits& limits) : path(first.path) {
  Elf64_Ehdr head{};
  if (!memory.Read(first.begin, &head, sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > 64) {
    return;
  }
  std::vector<Elf64_Phdr> segments(head.e_phnum);
  if (!memory.Read(first.begin + head.e_phoff, segments.data(), segments.size() * sizeof segments[0])) return;
  uint64_t lowest = ~uint64_t{0};
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD) lowest = std::min<uint64_t>(lowest, segment.p_vaddr & -uint64_t{4096});
  }
  const uint64_t base = first.begin - lowest;
  uint64_t dynamic = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_DYNAMIC) dynamic = base + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) frames = base + segment.p_vaddr;
    if (segment.p_type != PT_LOAD) continue;
    const uint64_t begin = base + segment.p_vaddr, end = begin + segment.p_memsz;
    is_damaged |= end < begin;
    parts.push_back({begin, end, segment.p_flags});
  }
  is_valid = dynamic != 0 && !parts.empty();
  if (is_valid && !is_damaged) is_damaged = !ReadFunctions(memory, base, dynamic, limits);
}

bool MappedObject::ReadFunctions(const ProcessMemory& memory, uint64_t base, uint64_t dynamic, ReadingLimits& limits) {
  uint64_t symbols = 0, names = 0, name_bytes = 0, hash = 0;
  for (int i = 0; i < 256; ++i) {
    const auto entry = memory.Get<Elf64_Dyn>(dynamic + static_cast<uint64_t>(i) * sizeof(Elf64_Dyn));
    const uint64_t value = entry.d_un.d_val;
    const uint64_t address = value < base ? value + base : value;  // the dynamic linker has added the base, or not
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SYMTAB) symbols = address;
    if (entry.d_tag == DT_STRTAB) names = address;
    if (entry.d_tag == DT_STRSZ) name_bytes = value;
    if (entry.d_tag == DT_GNU_HASH) hash = address;
  }
  if (symbols == 0 || names == 0 || hash == 0 || name_bytes == 0) return true;
  constexpr uint32_t kMostSymbols = 1 << 18, kMostNames = 16 << 20;
  const auto read = [&](uint64_t from, auto* vector) {
    const uint64_t bytes = vector->size() * sizeof(*vector)[0];
    return limits.Take(bytes) && memory.Read(from, vector->data(), bytes);
  };
  // The number of symbols: behind the last one of the last chain (cpp/run/loader/exported.cpp).
  struct {
    uint32_t buckets, first, words, shift;
  } head{};
  if (name_bytes > kMostNames || !memory.Read(hash, &head, sizeof head)) return false;
  if (head.buckets == 0 || head.buckets > kMostSymbols || head.words > kMostSymbols) return false;
  const uint64_t at_buckets = hash + sizeof head + uint64_t{head.words} * 8, at_chains = at_buckets + uint64_t{head.buckets} * 4;
  std::vector<uint32_t> buckets(head.buckets);
  if (!read(at_buckets, &buckets)) return false;
  uint32_t last = *std::ranges::max_element(buckets);
  if (last < head.first) return true;  // it exports nothing
  for (uint32_t link = 0; (link & 1) == 0; ++last) {
    if (last >= kMostSymbols || !memory.Read(at_chains + uint64_t{last - head.first} * 4, &link, sizeof link)) return false;
  }
  std::vector<Elf64_Sym> table(last);
  std::string text(name_bytes, '\0');
  if (!read(symbols, &table) || !read(names, &text)) return false;
  constexpr size_t kLongest = 64;  // those that are looked for are shorter
  for (const Elf64_Sym& symbol : table) {
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx != SHN_UNDEF && type == STT_OBJECT && symbol.st_size == 1 && symbol.st_name < text.size() &&
        std::strcmp(text.c_str() + symbol.st_name, "__libc_single_threaded") == 0) {
      single_threaded = base + symbol.st_value;
    }
    if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_name >= text.size()) continue;
    const size_t length = strnlen(text.c_str() + symbol.st_name, kLongest);
    if (length == kLongest) continue;
    if (limits.functions == 0) return false;
    --limits.functions;
    functions.push_back({{text, symbol.st_name, length}, base + symbol.st_value, base + symbol.st_value + symbol.st_size});
  }
  std::ranges::sort(functions, {}, &ExportedSymbol::begin);
  return true;
}

const ExportedSymbol* MappedObject::Find(std::string_view name) const {
  const auto found = std::ranges::find(functions, name, &ExportedSymbol::name);
  return found == functions.end() ? nullptr : &*found;
}

}  // namespace perfschema::bindings
