// The list of tables.h as data.
#include "tables/tables.h"

namespace perfschema {
namespace {

constexpr NamedTable kTables[] = {
#define X(name) {#name, &tables::name},
    PFS_FOR_EACH_TABLE(X)
#undef X
};

constexpr bool IsSorted() {
  for (size_t i = 1; i < std::size(kTables); ++i) {
    if (kTables[i - 1].name >= kTables[i].name) return false;
  }
  return true;
}
static_assert(IsSorted(), "PFS_FOR_EACH_TABLE must be sorted by name");

}  // namespace

std::span<const NamedTable> AllTables() { return kTables; }

}  // namespace perfschema
