#include "record/declared/variables.h"

#include <charconv>
#include <cmath>

#include "base/clock.h"
#include "base/like.h"
#include "base/text.h"
#include "record/context/threads.h"
#include "record/engine/texts.h"

namespace perfschema {
namespace {

Status CheckWord(std::string_view what, std::string_view name, size_t most) {
  bool is_good = !name.empty() && name.size() <= most;
  for (const char c : name) is_good = is_good && static_cast<unsigned char>(c) > ' ' && c != 127;
  if (is_good) return {};
  return Status(Code::kInvalidArgument,
                std::string(what) + " " + Quoted(name) + ": a name has 1 to " + std::to_string(most) + " bytes, without blanks");
}

bool IsOption(std::string_view name) {
  for (const OptionTraits& option : kOptions) {
    if (EqualsIgnoringCase(option.name, name)) return true;
  }
  for (const TextOptionTraits& option : kTextOptions) {
    if (EqualsIgnoringCase(option.name, name)) return true;
  }
  return false;
}

std::optional<double> Number(std::string_view text, bool is_whole) {
  double number = 0;
  int64_t whole = 0;
  uint64_t large = 0;
  const char* const end = text.data() + text.size();
  if (!is_whole) {
    const auto [at, error] = std::from_chars(text.data(), end, number);
    return error == std::errc{} && at == end && std::isfinite(number) ? number : std::optional<double>();
  }
  if (const auto [at, error] = std::from_chars(text.data(), end, whole); error == std::errc{} && at == end)
    return static_cast<double>(whole);
  if (const auto [at, error] = std::from_chars(text.data(), end, large); error == std::errc{} && at == end)
    return static_cast<double>(large);
  return {};
}

// Checks a value against type and range, and returns its shown text.
Status CheckValue(std::string_view name, VariableType type, OptionalText minimum, OptionalText maximum, OptionalText value,
                  FactText* shown) {
  *shown = CutFact(value, kVariableValueBytes);
  if (!value) return {};
  const auto bad = [&](const std::string& legal) {
    return Status(Code::kInvalidArgument, "bad value " + Quoted(*value) + " for variable '" + std::string(name) + "': legal is " + legal);
  };
  if (type == VariableType::kBoolean) {
    for (const std::string_view yes : {"ON", "1", "TRUE", "YES"}) {
      if (EqualsIgnoringCase(*value, yes)) return *shown = "ON", Status();
    }
    for (const std::string_view no : {"OFF", "0", "FALSE", "NO"}) {
      if (EqualsIgnoringCase(*value, no)) return *shown = "OFF", Status();
    }
    return bad("ON or OFF");
  }
  if (type != VariableType::kInteger && type != VariableType::kNumeric) return {};
  const bool is_whole = type == VariableType::kInteger;
  const std::optional<double> number = Number(*value, is_whole);
  const auto low = minimum ? Number(*minimum, false) : std::nullopt, high = maximum ? Number(*maximum, false) : std::nullopt;
  if (number && (!low || *number >= *low) && (!high || *number <= *high)) return {};
  std::string legal = is_whole ? "a whole number" : "a number";
  if (minimum) legal += " from " + std::string(*minimum);
  if (maximum) legal += (minimum ? " to " : " up to ") + std::string(*maximum);
  return bad(legal);
}

// Adds the account of the calling thread.
void AddSetter(Fact& fact) {
  const ThreadState* const thread = AttachedThread();
  if (thread == nullptr) return;
  const auto text = [](const auto& words) {
    char bytes[sizeof words];
    CopyFromShared(bytes, words, sizeof bytes);
    const std::string_view view(bytes, strnlen(bytes, sizeof bytes));
    return view.empty() ? FactText() : FactText(std::string(view));
  };
  fact.texts[kVariableSetUser] = text(thread->shared->user_name);
  fact.texts[kVariableSetHost] = text(thread->shared->host_name);
}

OptionalText View(const Fact& fact, VariableText i) {
  return i < fact.texts.size() && fact.texts[i] ? OptionalText(*fact.texts[i]) : OptionalText();
}

Status NoSuchVariable(std::string_view name) {
  if (IsOption(name)) return Status(Code::kNotAllowed, "variable " + Quoted(name) + " is an option of pfs: it is fixed at start");
  return Status(Code::kNotFound,
                "no variable " + Quoted(name) + " is registered: global_variables and variables_metadata list all of them");
}

// Calls found(index, fact) for the variable.
template <typename Found>
Status WithVariable(std::string_view name, Found found) {
  return WithFacts(FactKind::kVariable, [&]() -> Status {
    const FactIndex index = FindFact(FactKind::kVariable, 0, {name});
    if (index == 0) return NoSuchVariable(name);
    return found(LoadFact(index), index);
  });
}

Status Store(FactKind kind, uint64_t owner, const Fact& fact) {
  return StoreFact(kind, owner, fact) != 0 ? Status() : DeclaredRowsAreFull();
}

void Drop(FactKind kind, uint64_t owner, KeyTexts key) {
  if (const FactIndex index = FindFact(kind, owner, key); index != 0) DropFact(index);
}

}  // namespace

Status RegisterVariable(const VariableInfo& info) {
  if (Status status = CheckWord("variable", info.name, kVariableNameBytes); !status.ok()) return status;
  if (IsOption(info.name)) return Status(Code::kExists, "variable " + Quoted(info.name) + " is an option of pfs");
  Fact fact;
  fact.texts.resize(kVariableTexts);
  if (Status status = CheckValue(info.name, info.type, info.minimum, info.maximum, info.value, &fact.texts[kVariableValue]); !status.ok())
    return status;
  fact.texts[kVariableName] = std::string(info.name);
  fact.texts[kVariableMinimum] = CutFact(info.minimum, 64);
  fact.texts[kVariableMaximum] = CutFact(info.maximum, 64);
  fact.texts[kVariableDoc] = std::string(CutText(info.documentation, 65535));
  fact.numbers = {static_cast<uint64_t>(info.scope), static_cast<uint64_t>(info.type), static_cast<uint64_t>(VariableSource::kCompiled),
                  WallClockMicros()};
  return WithFacts(FactKind::kVariable, [&] {
    FactText shown;
    if (const FactIndex index = FindFact(FactKind::kVariable, 0, {info.name}); index != 0) {
      const Fact before = LoadFact(index);
      fact.texts[kVariableName] = before.texts[kVariableName];
      if (CheckValue(info.name, info.type, info.minimum, info.maximum, View(before, kVariableValue), &shown).ok()) {
        for (const VariableText kept : {kVariablePath, kVariableSetUser, kVariableSetHost}) fact.texts[kept] = before.texts[kept];
        fact.texts[kVariableValue] = shown;
        fact.numbers[kVariableSource] = before.number(kVariableSource);
        fact.numbers[kVariableSetTime] = before.number(kVariableSetTime);
      }
      DropFactsIf(FactKind::kThreadVariable, [&](const Fact& own) {
        if (!EqualsIgnoringCase(own.text(0), info.name)) return false;
        const OptionalText value = own.texts.size() > 1 && own.texts[1] ? OptionalText(*own.texts[1]) : OptionalText();
        return info.scope == VariableScope::kGlobal || !CheckValue(info.name, info.type, info.minimum, info.maximum, value, &shown).ok();
      });
    }
    return Store(FactKind::kVariable, 0, fact);
  });
}

Status SetVariable(std::string_view name, OptionalText value, VariableSource source, std::string_view path) {
  return WithVariable(name, [&](Fact fact, FactIndex) {
    if (fact.number(kVariableScope) == static_cast<uint64_t>(VariableScope::kSessionOnly)) {
      return Status(Code::kNotAllowed, "variable " + Quoted(name) + " has no global value: its scope is SESSION_ONLY");
    }
    FactText shown;
    const auto type = static_cast<VariableType>(fact.number(kVariableType));
    Status status = CheckValue(name, type, View(fact, kVariableMinimum), View(fact, kVariableMaximum), value, &shown);
    if (!status.ok()) return status;
    fact.texts[kVariableValue] = shown;
    fact.texts[kVariablePath] = CutOrNull(path, 1024);
    fact.numbers[kVariableSource] = static_cast<uint64_t>(source);
    fact.numbers[kVariableSetTime] = WallClockMicros();
    AddSetter(fact);
    return Store(FactKind::kVariable, 0, fact);
  });
}

Status SetThreadVariable(std::string_view name, OptionalText value, bool forget) {
  const uint64_t owner = OwnerOfFacts();
  return WithVariable(name, [&](const Fact& variable, FactIndex) {
    if (variable.number(kVariableScope) == static_cast<uint64_t>(VariableScope::kGlobal)) {
      return Status(Code::kNotAllowed, "variable " + Quoted(name) + " has no values of sessions: its scope is GLOBAL");
    }
    FactText shown;
    const auto type = static_cast<VariableType>(variable.number(kVariableType));
    Status status = CheckValue(name, type, View(variable, kVariableMinimum), View(variable, kVariableMaximum), value, &shown);
    if (!status.ok() || owner == 0) return status;
    if (forget) return Drop(FactKind::kThreadVariable, owner, {name}), Status();
    return Store(FactKind::kThreadVariable, owner, {{}, {variable.texts[kVariableName], shown}});
  });
}

Status SetVariableAttribute(std::string_view variable, std::string_view attribute, OptionalText value) {
  if (Status status = CheckWord("attribute", attribute, kAttributeNameBytes); !status.ok()) return status;
  return WithFacts(FactKind::kAttribute, [&] {
    if (FindFact(FactKind::kVariable, 0, {variable}) == 0 && !IsOption(variable)) return NoSuchVariable(variable);
    if (!value) return Drop(FactKind::kAttribute, 0, {variable, attribute}), Status();
    return Store(FactKind::kAttribute, 0, {{}, {std::string(variable), std::string(attribute), CutFact(value, kVariableValueBytes)}});
  });
}

Status RemoveVariable(std::string_view name) {
  return WithVariable(name, [&](const Fact&, FactIndex index) {
    DropFact(index);
    const auto is_of_it = [&](const Fact& fact) { return EqualsIgnoringCase(fact.text(0), name); };
    DropFactsIf(FactKind::kAttribute, is_of_it);
    DropFactsIf(FactKind::kThreadVariable, is_of_it);
    return Status();
  });
}

Status SetUserVariable(std::string_view name, OptionalText value, bool remove) {
  if (name.empty()) return Status(Code::kInvalidArgument, "a variable of a thread has a name of 1 to 64 bytes");
  const uint64_t owner = EnsureStarted() ? OwnerOfFacts() : 0;
  if (owner == 0) return {};
  name = CutText(name, kVariableNameBytes);
  return WithFacts(FactKind::kUserVariable, [&] {
    if (remove) return Drop(FactKind::kUserVariable, owner, {name}), Status();
    return Store(FactKind::kUserVariable, owner, {{}, {std::string(name), CutFact(value, kUserVariableBytes)}});
  });
}

}  // namespace perfschema
