// run/loader/exported.h: finds what the objects of a program export, as the dynamic linker does, but without its lock and without memory.
//
// At the start of a process all functions of the C library are looked up. dlsym() takes 0.5 us for each, and the lock of the dynamic
// linker; it may allocate.
#pragma once

#include <link.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace perfschema::run {

// Returns the segments of an object. REQUIRES: it can be loaded anywhere, so that it has a base.
std::span<const ElfW(Phdr)> SegmentsOf(const link_map& object);

// Is what is read of the dynamic section of an object. What it lacks is nullptr.
struct DynamicSection {
  explicit DynamicSection(const link_map& object);
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const uint16_t* versions = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* hash = nullptr;          // of an object that has no other
  const ElfW(Rela) * relocations[2] = {};  // of data, and of calls
  size_t sizes[2] = {};
  size_t name_of_library = 0;  // where DT_SONAME begins in `names`; 0 if the object has none
};

// Returns the hash that the objects' tables have for a name.
constexpr uint32_t HashOfSymbol(std::string_view name) {
  uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<uint8_t>(c);
  return hash;
}

// A name with its hash. `text` ends with a zero.
struct SymbolName {
  constexpr explicit SymbolName(std::string_view of) : SymbolName(of.data(), HashOfSymbol(of)) {}
  constexpr SymbolName(const char* name, uint32_t hash_of_name) : text(name), hash(hash_of_name) {}
  const char* text;
  uint32_t hash;
};

// The table of what one object exports. Threads: immutable.
class Exported {
 public:
  // REQUIRES: the object stays loaded.
  explicit Exported(const link_map& object);
  // Returns the address of a function or variable, or nullptr. It is the default version if there are several.
  void* Find(const SymbolName& name) const;
  // As Find(), but finds no variable.
  void* FindFunction(const SymbolName& name) const;
  // Returns the size of a variable that it exports.
  size_t BytesOf(const SymbolName& name) const { return from_.symbols[IndexOf(name)].st_size; }

 private:
  uint32_t IndexOf(const SymbolName& name) const;
  bool Is(uint32_t index, const char* name) const;
  uint32_t IndexByGnuHash(const SymbolName& name) const;
  uint32_t IndexByHash(const SymbolName& name) const;

  const ElfW(Addr) base_;
  const DynamicSection from_;
};

// Returns the first object of the program, in the order in which the dynamic linker looks for symbols; `l_next` leads to the others.
const link_map* FirstObject();
// Returns the object that this library is.
const link_map* OwnObject();

// Is where a name begins in a text of names that end with a zero each, and its hash. Text, because pointers would be relocated at each
// start.
struct NamePlace {
  uint32_t at, hash;
};
template <size_t kCount>
constexpr std::array<NamePlace, kCount> PlacesIn(const char* names) {
  std::array<NamePlace, kCount> places = {};
  uint32_t at = 0;
  for (NamePlace& place : places) {
    const std::string_view name(names + at);
    place = {at, HashOfSymbol(name)};
    at += static_cast<uint32_t>(name.size()) + 1;
  }
  return places;
}
// Stores the address of each name in the first object, from `first` on, that exports it. REQUIRES: `found` has nullptr for each name.
void FindAll(const link_map* first, const char* names, std::span<const NamePlace> places, void** found);

}  // namespace perfschema::run
