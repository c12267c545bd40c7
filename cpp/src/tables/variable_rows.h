// tables/variable_rows.h: shared rows of the tables of variables: options of pfs, then variables of the program.
#pragma once

#include <algorithm>
#include <string>

#include "record/context/threads.h"
#include "record/declared/variables.h"
#include "snapshot/program.h"
#include "tables/tables.h"

namespace perfschema {

struct Variable {
  Text<64> name;
  std::optional<Text<1024>> value;  // global value; for SESSION_ONLY the initial value of a session
  VariableScope scope;
  VariableType type;
  VariableSource source;
  std::optional<Text<64>> minimum, maximum;
  LongText documentation;
  std::optional<Text<1024>> path;
  std::optional<Timestamp> set_time;
  std::optional<Char<32>> set_user;
  std::optional<Char<255>> set_host;
  bool has_global() const { return scope != VariableScope::kSessionOnly; }
  bool has_session() const { return scope != VariableScope::kGlobal; }
};

// Calls use(variable) for each variable, also while pfs is off.
template <typename Use>
void ForEachVariable(const Snapshot& snapshot, Use use) {
  for (uint32_t i = 0; i < kOptionCount; ++i) {
    const auto id = static_cast<OptionId>(i);
    const OptionTraits& option = kOptions[i];
    const int64_t value = snapshot.ok() ? snapshot.option(id) : StartOptions().Get(id);
    const bool is_set = snapshot.ok() ? snapshot.header().program.option_is_set[i] != 0 : StartOptions().is_set[i];
    const auto words = WordsOf(id);
    const bool is_word = static_cast<uint64_t>(value) < words.size(),
               is_switch = words.empty() && option.minimum == 0 && option.maximum == 1;
    const auto number = [&](int64_t n) { return snapshot.Keep(std::to_string(n)); };
    Variable variable{};
    variable.name = option.name;
    variable.value = Text<1024>(is_word ? words[static_cast<size_t>(value)] : is_switch ? value != 0 ? "ON" : "OFF" : number(value));
    variable.type = is_word ? VariableType::kEnumeration : is_switch ? VariableType::kBoolean : VariableType::kInteger;
    variable.source = is_set ? VariableSource::kCommandLine : VariableSource::kCompiled;
    if (!is_word && !is_switch) {
      variable.minimum = Text<64>(number(option.minimum));
      variable.maximum = Text<64>(number(option.maximum));
    }
    variable.documentation = option.doc;
    if (snapshot.ok()) variable.set_time = Timestamp{static_cast<int64_t>(snapshot.header().epoch_unix_micros)};
    use(variable);
  }
  for (uint32_t i = 0; i < kTextOptionCount; ++i) {
    const char* const text = snapshot.ok() ? snapshot.header().text_options[i] : StartOptions().texts[i];
    Variable variable{};
    variable.name = kTextOptions[i].name;
    variable.value = Text<1024>(snapshot.Keep({text, strnlen(text, kTextOptionBytes)}));
    variable.type = VariableType::kString;
    variable.source = variable.value->view() == kTextOptions[i].initial ? VariableSource::kCompiled : VariableSource::kCommandLine;
    variable.documentation = kTextOptions[i].doc;
    if (snapshot.ok()) variable.set_time = Timestamp{static_cast<int64_t>(snapshot.header().epoch_unix_micros)};
    use(variable);
  }
  ForEachFact(snapshot, FactKind::kVariable, [&](const FactRow& row) {
    Variable variable{};
    variable.name = row.text(kVariableName);
    variable.value = row.optional<Text<1024>>(kVariableValue);
    // Values of another process are limited to our own enumerators.
    const auto code = [&](VariableNumber i, uint32_t count) { return std::min<uint64_t>(row.number(i), count - 1); };
    variable.scope = static_cast<VariableScope>(code(kVariableScope, kVariableScopeCount));
    variable.type = static_cast<VariableType>(code(kVariableType, kVariableTypeCount));
    variable.source = static_cast<VariableSource>(code(kVariableSource, kVariableSourceCount));
    variable.minimum = row.optional<Text<64>>(kVariableMinimum);
    variable.maximum = row.optional<Text<64>>(kVariableMaximum);
    variable.documentation = row.text(kVariableDoc);
    variable.path = row.optional<Text<1024>>(kVariablePath);
    variable.set_time = Timestamp{static_cast<int64_t>(row.number(kVariableSetTime))};
    variable.set_user = row.optional<Char<32>>(kVariableSetUser);
    variable.set_host = row.optional<Char<255>>(kVariableSetHost);
    use(variable);
  });
}

// Returns the reading thread as owner of facts; 0: it does not belong to the process whose tables are read.
inline uint64_t ReaderOf(const Snapshot& snapshot) {
  if (!snapshot.ok()) return OsIdOfThisThread();
  const bool is_own = __atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE) && &snapshot.header() == g_runtime.header;
  const ThreadState* const thread = is_own ? AttachedThread() : nullptr;
  return thread != nullptr ? thread->thread_id : 0;
}

}  // namespace perfschema
