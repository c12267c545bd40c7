// record/declared/variables.h: variables of the program: global values, values of threads, attributes. They are facts
// of these kinds:
//
//   kVariable        texts: name, value, minimum, maximum, documentation, path, SET_USER, SET_HOST; numbers: VariableNumber
//   kAttribute       texts: name of the variable, name of the attribute, value
//   kThreadVariable  texts: name, value; kUserVariable likewise
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "record/declared/facts.h"

namespace perfschema {

enum class VariableScope : uint32_t { kGlobal = 0, kSession, kSessionOnly };
enum class VariableType : uint32_t { kInteger = 0, kNumeric, kString, kEnumeration, kBoolean, kSet };
enum class VariableSource : uint32_t {
  kCompiled = 0,
  kGlobal,
  kServer,
  kExplicit,
  kExtra,
  kUser,
  kLogin,
  kCommandLine,
  kPersisted,
  kDynamic
};
inline constexpr uint32_t kVariableScopeCount = 3, kVariableTypeCount = 6, kVariableSourceCount = 10;

enum VariableNumber : size_t { kVariableScope = 0, kVariableType, kVariableSource, kVariableSetTime, kVariableNumbers };
enum VariableText : size_t {
  kVariableName = 0,
  kVariableValue,
  kVariableMinimum,
  kVariableMaximum,
  kVariableDoc,
  kVariablePath,
  kVariableSetUser,
  kVariableSetHost,
  kVariableTexts
};

struct VariableInfo {
  std::string_view name;
  VariableType type;
  VariableScope scope;
  OptionalText value, minimum, maximum;
  std::string_view documentation;
};

// All functions return kInvalidArgument for names and values that break a rule, kNotFound for an unknown variable, or
// kFull. They return kNotAllowed for a change that the variable's scope forbids, and for options of pfs. Texts are
// cut to the width of their column.

// Registers a variable. A second registration replaces the declaration; values, also those of threads, stay if they
// are still legal.
Status RegisterVariable(const VariableInfo& info);
// Sets the global value. `path`: VARIABLE_PATH, empty = NULL.
Status SetVariable(std::string_view name, OptionalText value, VariableSource source, std::string_view path);
// Sets the value of the calling thread's session. `forget` removes it.
Status SetThreadVariable(std::string_view name, OptionalText value, bool forget);
// Sets an attribute; nullopt removes it.
Status SetVariableAttribute(std::string_view variable, std::string_view attribute, OptionalText value);
// Removes a variable with its attributes and values of threads.
Status RemoveVariable(std::string_view name);
// Sets a named value of the calling thread. `remove` removes it.
Status SetUserVariable(std::string_view name, OptionalText value, bool remove);

inline constexpr size_t kVariableNameBytes = 64, kVariableValueBytes = 1024, kAttributeNameBytes = 32, kUserVariableBytes = 65535;

}  // namespace perfschema
