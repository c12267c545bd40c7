#include "run/python/python_api.h"

#include <cstddef>
#include <cstring>

#include "base/placement.h"
#include "run/loader/exported.h"

namespace perfschema::run {

PythonApi g_py = {};
bool g_python_is_free_threaded = false;

namespace {

// The names, in the order of the addresses.
#define PFS_NAME(type, name, ...) #name "\0"
constexpr char kNames[] =
    PFS_PYTHON_FUNCTIONS(PFS_NAME) PFS_PYTHON_REFERENCES(PFS_NAME) PFS_PYTHON_STATES(PFS_NAME) PFS_PYTHON_VARIABLES(PFS_NAME);
#undef PFS_NAME
constexpr size_t kAddresses = sizeof(PythonApi) / sizeof(void*);
constexpr auto kPlaces = PlacesIn<kAddresses>(kNames);

// Returns the object that has the interpreter, or nullptr.
PFS_IN_EVERY_PROCESS const link_map* Interpreter() {
  constexpr SymbolName needed("PyGILState_GetThisThreadState");
  const link_map* object = FirstObject();
  while (object != nullptr && Exported(*object).Find(needed) == nullptr) object = object->l_next;
  return object;
}

bool HasAll(const PythonApi& api) {
#define PFS_IS_THERE(type, name, ...) &&api.name != nullptr
  return (api.PyThreadState_GetUnchecked != nullptr || api._PyThreadState_UncheckedGet != nullptr) PFS_PYTHON_FUNCTIONS(PFS_IS_THERE)
      PFS_PYTHON_VARIABLES(PFS_IS_THERE);
#undef PFS_IS_THERE
}

}  // namespace

PFS_IN_EVERY_PROCESS const link_map* FindPython() {
  const link_map* const interpreter = Interpreter();
  if (interpreter == nullptr) return nullptr;
  constexpr SymbolName of_free_threads("_Py_MergeZeroLocalRefcount");
  g_python_is_free_threaded = Exported(*interpreter).Find(of_free_threads) != nullptr;
  // The first object that has a name has it for all: a program can have the interpreter's variables itself (copy relocations).
  void* found[kAddresses] = {};
  FindAll(FirstObject(), kNames, kPlaces, found);
  PythonApi api;
  static_assert(sizeof found == sizeof api);
  std::memcpy(&api, found, sizeof api);
  if (!HasAll(api)) return g_python_is_free_threaded ? interpreter : nullptr;
  g_py = api;
  return interpreter;
}

}  // namespace perfschema::run
