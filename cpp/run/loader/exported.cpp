#include "run/loader/exported.h"

#include <elf.h>

#include "base/placement.h"

namespace perfschema::run {
namespace {

// Returns the address that an entry of the dynamic section holds. The dynamic linker has added the object's base, except in the
// kernel's own object, which it cannot store to.
template <typename T>
const T* PointerOf(const ElfW(Dyn) & entry, ElfW(Addr) base) {
  const ElfW(Addr) at = entry.d_un.d_ptr;
  return reinterpret_cast<const T*>(at < base ? at + base : at);
}

constexpr uint16_t kHiddenVersion = 0x8000;

// As strcmp() == 0. That may be the program's function before the calls of this library are bound (own_calls.cpp).
PFS_IN_EVERY_PROCESS bool IsSame(const char* left, const char* right) {
  while (*left != 0 && *left == *right) ++left, ++right;
  return *left == *right;
}

}  // namespace

PFS_IN_EVERY_PROCESS std::span<const ElfW(Phdr)> SegmentsOf(const link_map& object) {
  const auto* const head = reinterpret_cast<const char*>(object.l_addr);
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(head);
  return {reinterpret_cast<const ElfW(Phdr)*>(head + header->e_phoff), header->e_phnum};
}

PFS_IN_EVERY_PROCESS DynamicSection::DynamicSection(const link_map& object) {
  for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const auto read = [&]<typename T>(const T** pointer) { *pointer = PointerOf<T>(*entry, object.l_addr); };
    switch (entry->d_tag) {
      case DT_SYMTAB:
        read(&symbols);
        break;
      case DT_STRTAB:
        read(&names);
        break;
      case DT_VERSYM:
        read(&versions);
        break;
      case DT_GNU_HASH:
        read(&gnu_hash);
        break;
      case DT_HASH:
        read(&hash);
        break;
      case DT_RELA:
        read(&relocations[0]);
        break;
      case DT_RELASZ:
        sizes[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_JMPREL:
        read(&relocations[1]);
        break;
      case DT_PLTRELSZ:
        sizes[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_SONAME:
        name_of_library = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
}

PFS_IN_EVERY_PROCESS Exported::Exported(const link_map& object) : base_(object.l_addr), from_(object) {}

PFS_IN_EVERY_PROCESS bool Exported::Is(uint32_t index, const char* name) const {
  const ElfW(Sym)& symbol = from_.symbols[index];
  const bool is_defined = symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL;
  return is_defined && IsSame(from_.names + symbol.st_name, name) &&
         (from_.versions == nullptr || (from_.versions[index] & kHiddenVersion) == 0);
}

// The table: number of buckets, first symbol, words of the Bloom filter, a shift; the filter; the buckets; hashes of the symbols, of which
// the last one of a bucket has its lowest bit set.
PFS_IN_EVERY_PROCESS uint32_t Exported::IndexByGnuHash(const SymbolName& name) const {
  const uint32_t buckets = from_.gnu_hash[0], first = from_.gnu_hash[1], words = from_.gnu_hash[2], shift = from_.gnu_hash[3];
  const auto* const filter = reinterpret_cast<const uint64_t*>(from_.gnu_hash + 4);
  const uint64_t word = filter[name.hash / 64 & (words - 1)];
  if (buckets == 0 || (word >> (name.hash % 64) & word >> ((name.hash >> shift) % 64) & 1) == 0) return 0;
  const auto* const bucket = reinterpret_cast<const uint32_t*>(filter + words);
  const uint32_t* const hashes = bucket + buckets;
  uint32_t index = bucket[name.hash % buckets];
  if (index < first) return 0;
  for (;; ++index) {
    const uint32_t hash = hashes[index - first];
    if ((hash | 1) == (name.hash | 1) && Is(index, name.text)) return index;
    if ((hash & 1) != 0) return 0;
  }
}

uint32_t Exported::IndexByHash(const SymbolName& name) const {
  uint32_t hash = 0;
  for (const char* c = name.text; *c != 0; ++c) {
    hash = (hash << 4) + static_cast<uint8_t>(*c);
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  const uint32_t buckets = from_.hash[0];
  const uint32_t *const bucket = from_.hash + 2, *const next = bucket + buckets;
  uint32_t index = buckets == 0 ? 0 : bucket[hash % buckets];
  while (index != 0 && !Is(index, name.text)) index = next[index];
  return index;
}

PFS_IN_EVERY_PROCESS uint32_t Exported::IndexOf(const SymbolName& name) const {
  if (from_.symbols == nullptr || from_.names == nullptr || (from_.gnu_hash == nullptr && from_.hash == nullptr)) return 0;
  return from_.gnu_hash != nullptr ? IndexByGnuHash(name) : IndexByHash(name);
}

void* Exported::FindFunction(const SymbolName& name) const {
  const uint32_t index = IndexOf(name);
  const auto type = index != 0 ? ELF64_ST_TYPE(from_.symbols[index].st_info) : STT_NOTYPE;
  return type == STT_FUNC || type == STT_GNU_IFUNC ? Find(name) : nullptr;
}

PFS_IN_EVERY_PROCESS void* Exported::Find(const SymbolName& name) const {
  const uint32_t index = IndexOf(name);
  if (index == 0) return nullptr;
  const ElfW(Addr) address = base_ + from_.symbols[index].st_value;
  if (ELF64_ST_TYPE(from_.symbols[index].st_info) != STT_GNU_IFUNC) return reinterpret_cast<void*>(address);
  return reinterpret_cast<void* (*)()>(address)();
}

// The list is the one that debuggers read: a part of the C library's ABI.
PFS_IN_EVERY_PROCESS const link_map* FirstObject() { return _r_debug.r_map; }

PFS_IN_EVERY_PROCESS const link_map* OwnObject() {
  const link_map* object = FirstObject();
  while (object != nullptr && object->l_ld != _DYNAMIC) object = object->l_next;
  return object;
}

PFS_IN_EVERY_PROCESS void FindAll(const link_map* first, const char* names, std::span<const NamePlace> places, void** found) {
  size_t missing = places.size();
  for (const link_map* object = first; object != nullptr && missing != 0; object = object->l_next) {
    const Exported exported(*object);
    for (size_t i = 0; i < places.size(); ++i) {
      if (found[i] != nullptr) continue;
      found[i] = exported.Find({names + places[i].at, places[i].hash});
      if (found[i] != nullptr) --missing;
    }
  }
}

}  // namespace perfschema::run
