#include "record/declared/program.h"

#include "base/clock.h"
#include "base/text.h"
#include "record/context/threads.h"
#include "record/engine/texts.h"

namespace perfschema {
namespace {

constexpr size_t kNameBytes = 63, kDescriptionBytes = 1023;

std::string OwnedCut(std::string_view text, size_t bytes) { return std::string(CutText(text, bytes)); }

Status CheckName(std::string_view what, std::string_view name, size_t most) {
  if (!name.empty() && name.size() <= most) return {};
  return Status(Code::kInvalidArgument,
                "the name of a " + std::string(what) + " has 1 to " + std::to_string(most) + " bytes, not " + std::to_string(name.size()));
}

std::string_view WordFor(FactKind kind) {
  switch (kind) {
    case FactKind::kMeter:
      return "meter";
    case FactKind::kMetric:
      return "metric";
    case FactKind::kLogger:
      return "logger";
    case FactKind::kTask:
      return "task";
    case FactKind::kFunction:
      return "function";
    default:
      return "row";
  }
}

// Stores the fact, unless it is new and the kind has reached `limit`. `setting` is the initial setting of a new fact.
Status Register(FactKind kind, const Fact& fact, OptionId limit, Loss loss, uint64_t setting, uint32_t* key) {
  return WithFacts(kind, [&] {
    const bool is_new = FindFact(kind, 0, {fact.text(0)}) == 0;
    const int64_t most = StartOptionsLocked().Get(limit);
    if (is_new && CountFacts(kind) >= static_cast<uint64_t>(most)) {
      CountLoss(loss);
      return Status(Code::kFull, "cannot add another " + std::string(WordFor(kind)) + ": " +
                                     std::string(kOptions[static_cast<uint32_t>(limit)].name) + " is " + std::to_string(most));
    }
    const FactIndex index = StoreFact(kind, 0, fact);
    if (index == 0) return DeclaredRowsAreFull();
    if (is_new) SettingOf(index).store(setting, kRelease);
    if (key != nullptr) *key = index;
    return Status();
  });
}

// Calls change(fact), and stores the fact again.
template <typename Change>
Status ChangeFact(FactKind kind, KeyTexts key, Change change) {
  return WithFacts(kind, [&] {
    const FactIndex index = FindFact(kind, 0, key);
    if (index == 0) return Status(Code::kNotFound, "no " + std::string(WordFor(kind)) + " " + Quoted(*key.begin()) + " is registered");
    Fact fact = LoadFact(index);
    change(fact);
    return StoreFact(kind, 0, fact) != 0 ? Status() : DeclaredRowsAreFull();
  });
}

Status SetSetting(FactKind kind, std::string_view name, uint64_t setting) {
  return WithFacts(kind, [&] {
    const FactIndex index = FindFact(kind, 0, {name});
    if (index == 0) return Status(Code::kNotFound, "no " + std::string(WordFor(kind)) + " " + Quoted(name) + " is registered");
    SettingOf(index).store(setting, kRelease);  // pairs with pfs_meter_frequency, pfs_logger_level
    return Status();
  });
}

Status CheckFrequency(uint32_t frequency) {
  if (frequency >= 1 && frequency <= kMostMeterFrequency) return {};
  return Status(Code::kInvalidArgument,
                "FREQUENCY of a meter is 1 to " + std::to_string(kMostMeterFrequency) + " seconds, not " + std::to_string(frequency));
}

}  // namespace

// ---- Sessions

Status SetConnectAttributes(std::span<const ConnectAttribute> attributes) {
  if (!EnsureStarted()) return {};
  // Sizes are those of a client's wire format: a text of up to 250 bytes has one byte for its length, a longer one
  // three.
  const auto bytes_of = [](std::string_view text) { return text.size() + (text.size() <= 250 ? 1 : 3); };
  const auto size_of = [&](const ConnectAttribute& one) { return bytes_of(one.name) + bytes_of(one.value.value_or("")); };
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (attributes[i].name.empty()) return Status(Code::kInvalidArgument, "a connection attribute has a name");
    for (size_t j = 0; j < i; ++j) {
      if (attributes[i].name == attributes[j].name)
        return Status(Code::kInvalidArgument, "connection attribute " + Quoted(attributes[i].name) + " is given twice");
    }
  }
  const uint64_t owner = OwnerOfFacts();
  if (owner == 0) return {};
  uint64_t total = 0;
  for (const ConnectAttribute& one : attributes) total += size_of(one);
  return WithFacts(FactKind::kConnectAttrs, [&] {
    ShmDeclared& program = g_runtime.header->program;
    const auto capacity = static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::session_connect_attrs_size));
    if (total > program.longest_attrs.load(kRelaxed)) program.longest_attrs.store(total, kRelaxed);
    size_t kept = attributes.size();
    uint64_t lost = 0;
    std::string lost_text;
    const auto is_too_long = [&] {
      return total - lost + (kept == attributes.size() ? 0 : bytes_of("_truncated") + bytes_of(lost_text)) > capacity;
    };
    while (kept > 0 && is_too_long()) {
      lost += size_of(attributes[--kept]);
      lost_text = std::to_string(lost);
    }
    Fact fact;
    if (kept != attributes.size()) {
      CountLoss(Loss::kConnectAttrs);
      if (!is_too_long()) fact.texts = {FactText("_truncated"), FactText(lost_text)};
    }
    for (const ConnectAttribute& one : attributes.first(kept)) {
      fact.texts.emplace_back(std::string(one.name));
      fact.texts.push_back(one.value ? FactText(std::string(*one.value)) : FactText());
    }
    return StoreFact(FactKind::kConnectAttrs, owner, fact) != 0 ? Status() : DeclaredRowsAreFull();
  });
}

// ---- Meters, metrics, loggers

Status RegisterMeter(std::string_view name, uint32_t frequency, bool is_enabled, std::string_view description, uint32_t* key) {
  if (Status status = CheckName("meter", name, kNameBytes); !status.ok()) return status;
  if (Status status = CheckFrequency(frequency); !status.ok()) return status;
  return Register(FactKind::kMeter, {{}, {std::string(name), CutOrNull(description, kDescriptionBytes)}}, OptionId::max_meter_classes,
                  Loss::kMeters, MeterSetting(frequency, is_enabled), key);
}

Status RegisterMetric(std::string_view name, std::string_view meter, uint32_t type, uint32_t number_type, std::string_view unit,
                      std::string_view description) {
  if (Status status = CheckName("metric", name, kNameBytes); !status.ok()) return status;
  if (type >= kMetricTypeCount || number_type > 1) return Status(Code::kInvalidArgument, "no such type of a metric, or of its numbers");
  bool has_meter = true;
  Status status = WithFacts(FactKind::kMeter, [&] { return has_meter = FindFact(FactKind::kMeter, 0, {meter}) != 0, Status(); });
  if (!status.ok()) return status;
  if (!has_meter) return Status(Code::kNotFound, "no meter " + Quoted(meter) + " is registered: a metric belongs to one");
  return Register(FactKind::kMetric,
                  {{type, number_type},
                   {std::string(name), std::string(meter), CutOrNull(unit, kNameBytes), CutOrNull(description, kDescriptionBytes)}},
                  OptionId::max_metric_classes, Loss::kMetrics, 0, nullptr);
}

Status RegisterLogger(std::string_view name, uint32_t level, std::string_view description, uint32_t* key) {
  if (Status status = CheckName("logger", name, 128); !status.ok()) return status;
  if (level >= kLogLevelCount) return Status(Code::kInvalidArgument, "no such level of a logger");
  return Register(FactKind::kLogger, {{}, {std::string(name), CutOrNull(description, kDescriptionBytes)}}, OptionId::max_logger_classes,
                  Loss::kLoggers, level, key);
}

Status UpdateMeter(std::string_view name, uint32_t frequency, bool is_enabled) {
  if (Status status = CheckFrequency(frequency); !status.ok()) return status;
  return SetSetting(FactKind::kMeter, name, MeterSetting(frequency, is_enabled));
}

Status UpdateLogger(std::string_view name, uint32_t level) { return SetSetting(FactKind::kLogger, name, level); }

// ---- Tasks, functions

Status RegisterTask(std::string_view name, std::string_view comment, uint32_t interval_seconds) {
  if (Status status = CheckName("task", name, 64); !status.ok()) return status;
  return WithFacts(FactKind::kTask, [&] {
    const FactIndex index = FindFact(FactKind::kTask, 0, {name});
    Fact fact = index != 0 ? LoadFact(index) : Fact{{0, 0, 0, 0}, {}};
    fact.numbers[0] = interval_seconds;
    fact.texts = {std::string(name), CutOrNull(comment, kDescriptionBytes)};
    return StoreFact(FactKind::kTask, 0, fact) != 0 ? Status() : DeclaredRowsAreFull();
  });
}

Status BeginTask(std::string_view name) {
  return ChangeFact(FactKind::kTask, {name}, [](Fact& fact) { fact.numbers[3] = 1; });
}

Status EndTask(std::string_view name, bool has_failed) {
  return ChangeFact(FactKind::kTask, {name}, [&](Fact& fact) {
    fact.numbers[1] += 1;
    fact.numbers[2] += has_failed ? 1 : 0;
    fact.numbers[3] = 0;
  });
}

Status RegisterFunction(std::string_view name, std::string_view return_type, std::string_view type, std::string_view library) {
  if (Status status = CheckName("function", name, 64); !status.ok()) return status;
  return WithFacts(FactKind::kFunction, [&] {
    const FactIndex index = FindFact(FactKind::kFunction, 0, {name});
    Fact fact = index != 0 ? LoadFact(index) : Fact{{0}, {}};
    fact.texts = {std::string(name), OwnedCut(return_type, 20), OwnedCut(type, 20), CutOrNull(library, 1024)};
    return StoreFact(FactKind::kFunction, 0, fact) != 0 ? Status() : DeclaredRowsAreFull();
  });
}

Status UseFunction(std::string_view name, int64_t change) {
  return ChangeFact(FactKind::kFunction, {name}, [&](Fact& fact) { fact.numbers[0] += static_cast<uint64_t>(change); });
}

Status RemoveProgramRow(FactKind kind, std::string_view name) {
  return WithFacts(kind, [&] {
    uint32_t before = CountFacts(kind);
    DropFactsIf(kind, [&](const Fact& fact) { return fact.text(0) == name; });
    if (CountFacts(kind) == before)
      return Status(Code::kNotFound, "no " + std::string(WordFor(kind)) + " " + Quoted(name) + " is registered");
    if (kind == FactKind::kMeter) DropFactsIf(FactKind::kMetric, [&](const Fact& fact) { return fact.text(1) == name; });
    return Status();
  });
}

// ---- Hosts, logins

namespace {

// Calls change(numbers, texts) with the host's row, which is made if there is none.
template <typename Change>
Status ChangeHost(std::string_view ip, Change change) {
  if (Status status = CheckName("host: its IP", ip, 64); !status.ok()) return status;
  return WithFacts(FactKind::kHostSeen, [&] {
    const FactIndex index = FindFact(FactKind::kHostSeen, 0, {ip});
    Fact fact;
    if (index != 0) {
      fact = LoadFact(index);
    } else {
      fact.texts = {std::string(ip), FactText()};
      fact.numbers.resize(kHostNumbers);
      fact.numbers[kHostFirstSeen] = WallClockMicros();
    }
    fact.numbers[kHostLastSeen] = WallClockMicros();
    change(fact);
    return StoreFact(FactKind::kHostSeen, 0, fact) != 0 ? Status() : DeclaredRowsAreFull();
  });
}

}  // namespace

Status SeeHost(std::string_view ip, std::string_view host, bool is_validated) {
  return ChangeHost(ip, [&](Fact& fact) {
    fact.texts[1] = CutOrNull(host, kHostBytes);
    fact.numbers[kHostValidated] = is_validated ? 1 : 0;
  });
}

Status CountHostError(std::string_view ip, uint32_t error) {
  if (error >= kHostErrorCount) return Status(Code::kInvalidArgument, "no such error of a host");
  return ChangeHost(ip, [&](Fact& fact) {
    ++fact.numbers[kHostErrors + error];
    if (error == kHandshakeError && fact.numbers[kHostValidated] != 0) ++fact.numbers[kHostConnectErrors];
    if (fact.numbers[kHostFirstError] == 0) fact.numbers[kHostFirstError] = fact.numbers[kHostLastSeen];
    fact.numbers[kHostLastError] = fact.numbers[kHostLastSeen];
  });
}

Status ForgetHost(std::string_view ip) {
  return WithFacts(FactKind::kHostSeen, [&] {
    const FactIndex index = FindFact(FactKind::kHostSeen, 0, {ip});
    if (index == 0) return Status(Code::kNotFound, "host_cache has no row of " + Quoted(ip));
    return DropFact(index), Status();
  });
}

Status ForgetAllHosts() {
  return WithFacts(FactKind::kHostSeen, [] { return DropFactsIf(FactKind::kHostSeen, [](const Fact&) { return true; }), Status(); });
}

Status CountLogin(std::string_view user, std::string_view host, bool has_failed) {
  const std::string account = "'" + OwnedCut(user, 4096) + "'@'" + OwnedCut(host, kHostBytes) + "'";
  return WithFacts(FactKind::kFailedLogin, [&] {
    const FactIndex index = FindFact(FactKind::kFailedLogin, 0, {account});
    if (!has_failed) return index != 0 ? (DropFact(index), Status()) : Status();
    const uint64_t attempts = index != 0 ? LoadFact(index).number(0) : 0;
    return StoreFact(FactKind::kFailedLogin, 0, {{attempts + 1}, {account}}) != 0 ? Status() : DeclaredRowsAreFull();
  });
}

Status SetAccountLock(std::string_view user, std::string_view host, const AccountLock* lock) {
  user = CutText(user, kUserBytes);
  host = CutText(host, kHostBytes);
  return WithFacts(FactKind::kAccountLock, [&] {
    const FactIndex index = FindFact(FactKind::kAccountLock, 0, {user, host});
    if (lock == nullptr) return index != 0 ? (DropFact(index), Status()) : Status();
    const auto micros = [](int64_t seconds) { return seconds <= 0 ? uint64_t{0} : static_cast<uint64_t>(seconds) * 1'000'000u; };
    const auto number = [](int32_t value) { return static_cast<uint64_t>(int64_t{value}); };
    Fact fact{{lock->is_locked ? uint64_t{1} : 0, number(lock->failed_attempts), number(lock->remaining_attempts), number(lock->lock_days),
               micros(lock->locked_since), micros(lock->locked_until)},
              {std::string(user), std::string(host)}};
    return StoreFact(FactKind::kAccountLock, 0, fact) != 0 ? Status() : DeclaredRowsAreFull();
  });
}

}  // namespace perfschema
