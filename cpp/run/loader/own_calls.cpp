#include "run/loader/own_calls.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <span>
#include <string_view>

#include "base/placement.h"
#include "record/engine/runtime.h"
#include "run/loader/exported.h"
#include "run/loader/memory.h"
#include "run/loader/sites.h"

extern "C" void pfs_run_late_dlsym() __attribute__((visibility("hidden")));  // modules.cpp

namespace perfschema::run {

PFS_IN_EVERY_PROCESS bool BeginsWith(const char* text, const char* with) {
  while (*with != 0 && *text == *with) ++text, ++with;
  return *with == 0;
}

namespace {

// Before glibc 2.34, functions of threads and those that look for symbols are in libraries of their own.
PFS_IN_EVERY_PROCESS bool IsOfCLibrary(const char* name) {
  return BeginsWith(name, "libc.so.6") || BeginsWith(name, "libpthread.so.0") || BeginsWith(name, "libdl.so.2") ||
         BeginsWith(name, "ld-linux-");
}

long ProtectMemory(uintptr_t begin, uintptr_t bytes, uintptr_t protection) {
#if defined(__aarch64__)
  register long number asm("x8") = SYS_mprotect;
  register uintptr_t first asm("x0") = begin;
  register uintptr_t second asm("x1") = bytes;
  register uintptr_t third asm("x2") = protection;
  asm volatile("svc #0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
  return static_cast<long>(first);
#else
  long result = SYS_mprotect;
  asm volatile("syscall" : "+a"(result) : "D"(begin), "S"(bytes), "d"(protection) : "rcx", "r11", "memory");
  return result;
#endif
}

#if defined(__aarch64__)
constexpr uint32_t kAnyUse = R_AARCH64_GLOB_DAT, kCall = R_AARCH64_JUMP_SLOT, kData = R_AARCH64_ABS64;
#else
constexpr uint32_t kAnyUse = R_X86_64_GLOB_DAT, kCall = R_X86_64_JUMP_SLOT, kData = R_X86_64_64;
#endif

}  // namespace

PFS_IN_EVERY_PROCESS CLibrary::CLibrary() {
  for (const link_map* object = FirstObject(); object != nullptr && count_ < kMostParts; object = object->l_next) {
    const DynamicSection section(*object);
    if (section.name_of_library == 0 || section.names == nullptr || !IsOfCLibrary(section.names + section.name_of_library)) continue;
    Part& part = parts_[count_++];
    part = {object, object->l_addr, object->l_addr};
    for (const ElfW(Phdr) & segment : SegmentsOf(*object)) {
      if (segment.p_type == PT_LOAD) part.end = object->l_addr + segment.p_vaddr + segment.p_memsz;
    }
  }
}

PFS_IN_EVERY_PROCESS bool CLibrary::Has(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (size_t i = 0; i < count_; ++i) {
    if (at - parts_[i].begin >= parts_[i].end - parts_[i].begin) continue;
    // Old linkers leave 2 MiB between code and variables. The system may put another library there.
    for (const ElfW(Phdr) & segment : SegmentsOf(*parts_[i].object)) {
      if (segment.p_type == PT_LOAD && at - (parts_[i].begin + segment.p_vaddr) < segment.p_memsz) return true;
    }
  }
  return false;
}

void* CLibrary::FunctionOf(const char* name) const {
  size_t length = 0;
  while (name[length] != 0) ++length;
  const SymbolName symbol(std::string_view(name, length));
  for (size_t i = 0; i < count_; ++i) {
    if (void* const function = Exported(*parts_[i].object).FindFunction(symbol); function != nullptr) return function;
  }
  return nullptr;
}

// Makes the relocated pages writable, or constant again as the dynamic linker has made them. Returns false if the system refuses: writable
// pages count for RLIMIT_DATA.
bool CLibrary::SetRelocated(const link_map& object, int protection) const {
  const auto get_value = reinterpret_cast<unsigned long (*)(unsigned long)>(FunctionOf("getauxval"));
  const uintptr_t page = get_value(AT_PAGESZ);
  const std::span segments = object.l_addr != 0 ? SegmentsOf(object)  // a program that is not relocatable has no base
                                                : std::span(reinterpret_cast<const ElfW(Phdr)*>(get_value(AT_PHDR)), get_value(AT_PHNUM));
  bool is_done = true;
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_GNU_RELRO) continue;
    const uintptr_t begin = (object.l_addr + segment.p_vaddr) & -page, end = (object.l_addr + segment.p_vaddr + segment.p_memsz) & -page;
    is_done &= ProtectMemory(begin, end - begin, static_cast<uintptr_t>(protection)) == 0;
  }
  return is_done;
}

// `find` returns what a name is to be bound to, or what it is bound to now.
template <typename Find>
[[gnu::always_inline]] inline void CLibrary::Bind(const link_map& object, Find find) const {
  const DynamicSection from(object);
  bool is_writable = false;
  for (size_t table = 0; table < 2; ++table) {
    for (const ElfW(Rela) & entry : std::span(from.relocations[table], from.sizes[table])) {
      const uint32_t type = ELF64_R_TYPE(entry.r_info);
      if ((type != kAnyUse && type != kCall && type != kData) || entry.r_addend != 0) continue;
      const ElfW(Sym)& symbol = from.symbols[ELF64_R_SYM(entry.r_info)];
      auto* const slot = reinterpret_cast<void**>(object.l_addr + entry.r_offset);
      if (symbol.st_shndx != SHN_UNDEF || *slot == nullptr) continue;
      void* const function = find(*slot, from.names + symbol.st_name, symbol);
      if (function == *slot) continue;
      if (!is_writable && !SetRelocated(object, PROT_READ | PROT_WRITE)) return;  // its calls go where the program's go
      is_writable = true;
      *slot = function;
    }
  }
  if (is_writable) SetRelocated(object, PROT_READ);
}

PFS_IN_EVERY_PROCESS void CLibrary::BindCallsOf(const link_map& object) const {
  Bind(object, [this](void* now, const char* name, const ElfW(Sym)&) {
    void* const function = Has(now) ? nullptr : FunctionOf(name);
    return function != nullptr ? function : now;
  });
}

void* FunctionWithoutUs(const SymbolName& name) {
  const link_map* const own = OwnObject();
  void* found = nullptr;
  for (const link_map* object = FirstObject(); object != nullptr && found == nullptr; object = object->l_next) {
    if (object != own) found = Exported(*object).FindFunction(name);
  }
  return found;
}

void CLibrary::BindCallsHere(const link_map& object) const {
  constexpr SymbolName kSearch("dlsym");
  const Exported own(*OwnObject());
  Bind(object, [&](void* const at, const char* text, const ElfW(Sym)&) -> void* {
    const void* now = at;
    const SymbolName name{std::string_view(text)};
    void* const ours = g_came_late && name.hash == kSearch.hash ? reinterpret_cast<void*>(&pfs_run_late_dlsym) : own.FindFunction(name);
    if (ours == nullptr || now == ours) return at;
    if (g_came_late && LacksFunction(text)) return at;  // it came after this library, as librt may before glibc 2.34
    if (Has(now)) return ours;
    const link_map* giver = MapOf(now);
    if (giver == &object) {  // it has not been called yet
      if (!g_came_late) return ours;
      now = FunctionWithoutUs(name);
      if (now == nullptr || Has(now)) return ours;
      giver = MapOf(now);
    }
    const bool is_of_client = g_came_late && giver != nullptr && FunctionOf(text) == nullptr;
    return is_of_client && now == Exported(*giver).FindFunction(name) ? ours : at;
  });
}

void CLibrary::BindCallsBack(const link_map& object) const {
  const link_map* const own = OwnObject();
  Bind(object, [&](void* now, const char* text, const ElfW(Sym)&) -> void* {
    if (MapOf(now) != own) return now;
    void* function = FunctionOf(text);
    if (function == nullptr) function = FunctionWithoutUs(SymbolName{std::string_view(text)});
    return function != nullptr ? function : now;
  });
}

void CLibrary::UnbindAbsent(const link_map& object, bool (*is_meant)(const char* name)) const {
  const link_map* const own = OwnObject();
  Bind(object, [&](void* now, const char* text, const ElfW(Sym) & symbol) -> void* {
    if (ELF64_ST_BIND(symbol.st_info) != STB_WEAK || !is_meant(text)) return now;
    const SymbolName name{std::string_view(text)};
    return now == Exported(*own).Find(name) && FunctionWithoutUs(name) == nullptr ? nullptr : now;
  });
}

bool CLibrary::IsBefore(const link_map& object) const {
  const link_map* before = object.l_prev;
  while (before != nullptr && (count_ == 0 || before != parts_[0].object)) before = before->l_prev;
  return before != nullptr;
}

}  // namespace perfschema::run

extern "C" void pfs_run_bind_calls(const void* dynamic_section) {
  using namespace perfschema::run;
  for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
    if (object->l_ld == dynamic_section) CLibrary().BindCallsOf(*object);
  }
}
