#include "run/python_api.h"

#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/placement.h"
#include "run/exported.h"

namespace perfschema::run {

PythonApi g_py = {};

namespace {

// The names, in the order of the addresses. Text, because pointers would be relocated at each start.
#define PFS_NAME(result, name, parameters) #name "\0"
#define PFS_NAME_OF_VARIABLE(type, name) #name "\0"
constexpr char kNames[] = PFS_PYTHON_FUNCTIONS(PFS_NAME) PFS_PYTHON_STATES(PFS_NAME) PFS_PYTHON_VARIABLES(PFS_NAME_OF_VARIABLE);
#undef PFS_NAME
#undef PFS_NAME_OF_VARIABLE
constexpr size_t kAddresses = sizeof(PythonApi) / sizeof(void*);

// Returns the object that has the interpreter, or nullptr.
PFS_IN_EVERY_PROCESS const link_map* Interpreter() {
  const SymbolName needed("PyGILState_GetThisThreadState");
  const link_map* object = FirstObject();
  while (object != nullptr && Exported(*object).Find(needed) == nullptr) object = object->l_next;
  return object;
}

bool HasAll(const PythonApi& api) {
#define PFS_IS_THERE(result, name, parameters) &&api.name != nullptr
#define PFS_VARIABLE_IS_THERE(type, name) &&api.name != nullptr
  return (api.PyThreadState_GetUnchecked != nullptr || api._PyThreadState_UncheckedGet != nullptr) PFS_PYTHON_FUNCTIONS(PFS_IS_THERE)
      PFS_PYTHON_VARIABLES(PFS_VARIABLE_IS_THERE);
#undef PFS_IS_THERE
#undef PFS_VARIABLE_IS_THERE
}

}  // namespace

PFS_IN_EVERY_PROCESS const link_map* FindPython() {
  const link_map* const interpreter = Interpreter();
  if (interpreter == nullptr) return nullptr;
  // The first object that has a name has it for all: a program can have the interpreter's variables itself (copy relocations).
  void* found[kAddresses] = {};
  for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
    const Exported exported(*object);
    const char* name = kNames;
    for (void*& address : found) {
      const std::string_view text(name);
      if (address == nullptr) address = exported.Find(SymbolName(text));
      name += text.size() + 1;
    }
  }
  PythonApi api;
  static_assert(sizeof found == sizeof api);
  std::memcpy(&api, found, sizeof api);
  if (!HasAll(api)) return nullptr;
  g_py = api;
  return interpreter;
}

}  // namespace perfschema::run
