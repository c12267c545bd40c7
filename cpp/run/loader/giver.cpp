#include "run/loader/giver.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "run/loader/exported.h"
#include "run/loader/sites.h"

namespace perfschema::run {
namespace {

// The relocations by which a module reaches functions of others.
#if defined(__aarch64__)
constexpr uint32_t kOfFunctions[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, R_AARCH64_ABS64};
#else
constexpr uint32_t kOfFunctions[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, R_X86_64_64};
#endif

}  // namespace

const link_map* GiverOf(const link_map* caller, std::string_view prefix, const char* wanted) {
  static const link_map* const own = MapOf(reinterpret_cast<const void*>(&GiverOf));
  const DynamicSection tables(*caller);
  if (tables.symbols == nullptr || tables.names == nullptr) return nullptr;
  for (int i = 0; i < 2; ++i) {
    for (size_t k = 0; k < tables.sizes[i]; ++k) {
      const ElfW(Rela)& relocation = tables.relocations[i][k];
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(relocation.r_info));
      if (std::ranges::find(kOfFunctions, type) == std::end(kOfFunctions)) continue;
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
