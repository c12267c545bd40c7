#include "run/giver.h"

#include <elf.h>

#include <cstdint>

#include "run/exported.h"
#include "run/sites.h"

namespace perfschema::run {
namespace {

// Is the part of a module's dynamic section that is read here.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;          // DT_GNU_HASH
  const ElfW(Rela) * relocations[2] = {};  // of data, and of calls
  size_t sizes[2] = {};

  explicit Tables(const link_map& module) {
    for (const ElfW(Dyn)* entry = module.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      // The dynamic linker has made addresses of the offsets, except where it may not write.
      const uintptr_t at = entry->d_un.d_ptr < module.l_addr ? entry->d_un.d_ptr + module.l_addr : entry->d_un.d_ptr;
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols = reinterpret_cast<const ElfW(Sym)*>(at);
          break;
        case DT_STRTAB:
          names = reinterpret_cast<const char*>(at);
          break;
        case DT_RELA:
          relocations[0] = reinterpret_cast<const ElfW(Rela)*>(at);
          break;
        case DT_RELASZ:
          sizes[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
          break;
        case DT_JMPREL:
          relocations[1] = reinterpret_cast<const ElfW(Rela)*>(at);
          break;
        case DT_PLTRELSZ:
          sizes[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
          break;
        default:
          break;
      }
    }
  }
  bool HasSymbols() const { return symbols != nullptr && names != nullptr; }
};

}  // namespace

const link_map* GiverOf(const link_map* caller, std::string_view prefix, const char* wanted) {
  static const link_map* const own = MapOf(reinterpret_cast<const void*>(&GiverOf));
  const Tables tables(*caller);
  if (!tables.HasSymbols()) return nullptr;
  for (int i = 0; i < 2; ++i) {
    for (size_t k = 0; k < tables.sizes[i]; ++k) {
      const ElfW(Rela)& relocation = tables.relocations[i][k];
      const auto type = ELF64_R_TYPE(relocation.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
      const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
      if (!std::string_view(tables.names + symbol.st_name).starts_with(prefix)) continue;
      const auto target = *reinterpret_cast<const uintptr_t*>(caller->l_addr + relocation.r_offset);
      const link_map* const giver = target != 0 ? MapOf(reinterpret_cast<const void*>(target)) : nullptr;
      // A function that has not been called yet leads back into the caller.
      const bool is_bound = giver != nullptr && giver != own && (giver != caller || symbol.st_shndx != SHN_UNDEF);
      if (is_bound && Exported(*giver).Find(SymbolName(wanted)) != nullptr) return giver;
    }
  }
  return nullptr;
}

}  // namespace perfschema::run
