#include "run/loader/absent.h"

#include <elf.h>
#include <link.h>

#include <cstdint>

#include "base/placement.h"
#include "run/loader/exported.h"
#include "run/loader/modules.h"
#include "run/loader/own_calls.h"
#include "run/loader/real.h"

namespace perfschema::run {
namespace {

PFS_IN_EVERY_PROCESS bool IsOfClient(const char* name) {
  return BeginsWith(name, kOfSqlite) || BeginsWith(name, kOfLibpq) || BeginsWith(name, kOfMysql);
}

// Returns whether an object refers to a function of a client that it can do without. The symbols that it lacks are the first ones of its
// table.
PFS_IN_EVERY_PROCESS bool HasWeakReference(const link_map& object) {
  const DynamicSection from(object);
  if (from.symbols == nullptr || from.names == nullptr || (from.gnu_hash == nullptr && from.hash == nullptr)) return false;
  const uint32_t end = from.gnu_hash != nullptr ? from.gnu_hash[1] : from.hash[1];
  for (uint32_t i = 1; i < end; ++i) {
    const ElfW(Sym)& symbol = from.symbols[i];
    const bool is_weak = symbol.st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_WEAK;
    if (is_weak && IsOfClient(from.names + symbol.st_name)) return true;
  }
  return false;
}

}  // namespace
}  // namespace perfschema::run

using namespace perfschema::run;

// Before the constructors of the program, and behind pfs_run_find_all().
asm(".pushsection .init_array.00001,\"aw\"\n.balign 8\n.quad pfs_run_unbind_absent\n.popsection\n");

extern "C" __attribute__((used, visibility("hidden"))) PFS_IN_EVERY_PROCESS void pfs_run_unbind_absent() {
  const link_map* const own = OwnObject();
  if (perfschema::g_came_late || own == nullptr) return;
  for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
    if (object != own && HasWeakReference(*object)) CLibrary().UnbindAbsent(*object, IsOfClient);
  }
}
