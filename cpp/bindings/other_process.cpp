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
    ranges.push_back(std::move(range));
  }
  std::free(line);
  fclose(file);
  return ranges;
}

MappedObject::MappedObject(const ProcessMemory& memory, const MappedRange& first) : path(first.path) {
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
    if (segment.p_type == PT_LOAD) parts.push_back({base + segment.p_vaddr, base + segment.p_vaddr + segment.p_memsz, segment.p_flags});
  }
  is_valid = dynamic != 0 && !parts.empty();
  if (is_valid) ReadFunctions(memory, base, dynamic);
}

void MappedObject::ReadFunctions(const ProcessMemory& memory, uint64_t base, uint64_t dynamic) {
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
  constexpr uint64_t kMostNames = 64 << 20;
  if (symbols == 0 || names == 0 || hash == 0 || name_bytes == 0 || name_bytes > kMostNames) return;
  // The number of symbols: behind the last one of the last chain (cpp/run/loader/exported.cpp).
  struct {
    uint32_t buckets, first, words, shift;
  } head{};
  if (!memory.Read(hash, &head, sizeof head) || head.buckets == 0 || head.buckets > 1 << 24 || head.words > 1 << 24) return;
  const uint64_t at_buckets = hash + sizeof head + uint64_t{head.words} * 8, at_chains = at_buckets + uint64_t{head.buckets} * 4;
  std::vector<uint32_t> buckets(head.buckets);
  if (!memory.Read(at_buckets, buckets.data(), buckets.size() * 4)) return;
  uint32_t last = *std::ranges::max_element(buckets);
  if (last < head.first) return;
  while ((memory.Get<uint32_t>(at_chains + uint64_t{last - head.first} * 4) & 1) == 0 && last < 1 << 24) ++last;
  std::vector<Elf64_Sym> table(last + 1);
  std::string text(name_bytes, '\0');
  if (!memory.Read(symbols, table.data(), table.size() * sizeof table[0]) || !memory.Read(names, text.data(), text.size())) return;
  for (const Elf64_Sym& symbol : table) {
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_name >= text.size()) continue;
    functions.push_back({text.c_str() + symbol.st_name, base + symbol.st_value, base + symbol.st_value + symbol.st_size});
  }
  std::ranges::sort(functions, {}, &ExportedSymbol::begin);
}

const ExportedSymbol* MappedObject::Find(std::string_view name) const {
  const auto found = std::ranges::find(functions, name, &ExportedSymbol::name);
  return found == functions.end() ? nullptr : &*found;
}

}  // namespace perfschema::bindings
