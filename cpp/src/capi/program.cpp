// capi/program.cpp: declarations of the program: variables, connections, meters, loggers, tasks, functions, its log. Cold.
#include "record/declared/program.h"

#include <vector>

#include "capi/guarded.h"
#include "capi/texts.h"
#include "perfschema/server.h"
#include "record/declared/log.h"

using namespace perfschema;
using namespace perfschema::capi;

namespace {

OptionalText OptionalOf(const char* text) { return text != nullptr ? OptionalText(text) : OptionalText(); }

Status NoSuch(const char* what, int number, const char* legal) {
  return Status(Code::kInvalidArgument, "no " + std::string(what) + " has the number " + std::to_string(number) + ": legal is " + legal);
}

Status NotGiven(const char* what) {
  return Status(Code::kInvalidArgument, "no " + std::string(what) + " given: legal is NULL with a count of 0 only");
}

// Returns whether a signed number, as C code may pass it, is in [0, count).
bool IsBelow(int number, uint32_t count) { return number >= 0 && static_cast<uint32_t>(number) < count; }

constexpr FactKind kRowKinds[] = {FactKind::kMeter, FactKind::kMetric, FactKind::kLogger, FactKind::kTask, FactKind::kFunction};
static_assert(PFS_HOST_UNKNOWN + 1 == kHostErrorCount && PFS_HOST_HANDSHAKE == kHandshakeError);
static_assert(PFS_VARIABLE_FROM_DYNAMIC + 1 == kVariableSourceCount && PFS_VARIABLE_SET + 1 == kVariableTypeCount);
static_assert(PFS_ROW_FUNCTION + 1 == std::size(kRowKinds));

}  // namespace

extern "C" {

// ---- variable.h

int pfs_register_variable(const pfs_variable_info_t* info, int count) {
  return Guarded([=] {
    if (info == nullptr && count > 0) return NotGiven("variables");
    Status first;
    for (int i = 0; i < count; ++i) {
      const pfs_variable_info_t& one = info[i];
      Status status;
      if (!IsBelow(one.type, kVariableTypeCount)) {
        status = NoSuch("type of a variable", one.type, "PFS_VARIABLE_INTEGER to PFS_VARIABLE_SET");
      } else if (!IsBelow(one.scope, kVariableScopeCount)) {
        status = NoSuch("scope of a variable", one.scope, "PFS_VARIABLE_GLOBAL, _SESSION and _SESSION_ONLY");
      } else {
        status = RegisterVariable({TextOf(one.name), static_cast<VariableType>(one.type), static_cast<VariableScope>(one.scope),
                                   OptionalOf(one.value), OptionalOf(one.minimum), OptionalOf(one.maximum), TextOf(one.documentation)});
      }
      if (first.ok()) first = status;
    }
    return first;
  });
}

int pfs_variable_set(const char* name, const char* value, enum pfs_variable_source source, const char* path) {
  return Guarded([=] {
    if (!IsBelow(source, kVariableSourceCount))
      return NoSuch("source of a value", source, "PFS_VARIABLE_FROM_COMPILED to PFS_VARIABLE_FROM_DYNAMIC");
    return SetVariable(TextOf(name), OptionalOf(value), static_cast<VariableSource>(source), TextOf(path));
  });
}

int pfs_thread_set_variable(const char* name, const char* value) {
  return Guarded([=] { return SetThreadVariable(TextOf(name), OptionalOf(value), false); });
}

int pfs_thread_forget_variable(const char* name) {
  return Guarded([=] { return SetThreadVariable(TextOf(name), {}, true); });
}

int pfs_variable_set_attribute(const char* name, const char* attribute, const char* value) {
  return Guarded([=] { return SetVariableAttribute(TextOf(name), TextOf(attribute), OptionalOf(value)); });
}

int pfs_unregister_variable(const char* name) {
  return Guarded([=] { return RemoveVariable(TextOf(name)); });
}

int pfs_thread_set_user_variable(const char* name, const void* value, size_t bytes) {
  return Guarded([=] {
    const OptionalText text = value != nullptr ? OptionalText(std::string_view(static_cast<const char*>(value), bytes)) : OptionalText();
    return SetUserVariable(TextOf(name), text, false);
  });
}

int pfs_thread_forget_user_variable(const char* name) {
  return Guarded([=] { return SetUserVariable(TextOf(name), {}, true); });
}

// ---- connection.h

int pfs_thread_set_connect_attrs(const pfs_connect_attr_t* attributes, int count) {
  return Guarded([=] {
    if (attributes == nullptr && count > 0) return NotGiven("attributes of the connection");
    std::vector<ConnectAttribute> all;
    for (int i = 0; i < count; ++i) all.push_back({TextOf(attributes[i].name), OptionalOf(attributes[i].value)});
    return SetConnectAttributes(all);
  });
}

int pfs_host_seen(const char* ip, const char* host, int validated) {
  return Guarded([=] { return SeeHost(TextOf(ip), TextOf(host), validated != 0); });
}

int pfs_host_error(const char* ip, enum pfs_host_error error) {
  return Guarded([=] {
    if (!IsBelow(error, kHostErrorCount)) return NoSuch("error of a host", error, "PFS_HOST_BLOCKED to PFS_HOST_UNKNOWN");
    return CountHostError(TextOf(ip), error);
  });
}

int pfs_host_forget(const char* ip) {
  return Guarded([=] { return ForgetHost(TextOf(ip)); });
}

int pfs_login_failed(const char* user, const char* host) {
  return Guarded([=] { return CountLogin(TextOf(user), TextOf(host), true); });
}

int pfs_login_succeeded(const char* user, const char* host) {
  return Guarded([=] { return CountLogin(TextOf(user), TextOf(host), false); });
}

int pfs_account_lock_set(const char* user, const char* host, const pfs_account_lock_t* lock) {
  return Guarded([=] {
    if (lock == nullptr) return SetAccountLock(TextOf(user), TextOf(host), nullptr);
    const AccountLock given{lock->is_locked != 0, lock->failed_attempts, lock->remaining_attempts,
                            lock->lock_days,      lock->since,           lock->until};
    return SetAccountLock(TextOf(user), TextOf(host), &given);
  });
}

// ---- program.h

int pfs_register_meter(const char* name, uint32_t frequency, int enabled, const char* description, pfs_key_t* key) {
  if (key != nullptr) *key = 0;
  return Guarded([=] { return RegisterMeter(TextOf(name), frequency, enabled != 0, TextOf(description), key); });
}

uint32_t pfs_meter_frequency(pfs_key_t key) {
  const ShmFact* const fact = FactOfKey(FactKind::kMeter, key);
  const uint64_t setting = fact == nullptr ? 0 : fact->setting.load(kRelaxed);
  return (setting & 1) != 0 ? static_cast<uint32_t>(setting >> 1) : 0;
}

int pfs_register_metric(const char* name, const char* meter, enum pfs_metric_type type, int is_double, const char* unit,
                        const char* description) {
  return Guarded([=] {
    if (!IsBelow(type, kMetricTypeCount)) return NoSuch("type of a metric", type, "PFS_METRIC_COUNTER, _UPDOWN and _GAUGE");
    return RegisterMetric(TextOf(name), TextOf(meter), type, is_double != 0 ? 1 : 0, TextOf(unit), TextOf(description));
  });
}

int pfs_register_logger(const char* name, enum pfs_log_level level, const char* description, pfs_key_t* key) {
  if (key != nullptr) *key = 0;
  return Guarded([=] {
    if (!IsBelow(level, kLogLevelCount)) return NoSuch("level of a logger", level, "PFS_LOG_LEVEL_NONE to PFS_LOG_LEVEL_DEBUG");
    return RegisterLogger(TextOf(name), level, TextOf(description), key);
  });
}

enum pfs_log_level pfs_logger_level(pfs_key_t key) {
  const ShmFact* const fact = FactOfKey(FactKind::kLogger, key);
  return fact == nullptr ? PFS_LOG_LEVEL_NONE : static_cast<pfs_log_level>(fact->setting.load(kRelaxed));
}

int pfs_register_task(const char* name, const char* comment, uint32_t interval_seconds) {
  return Guarded([=] { return RegisterTask(TextOf(name), TextOf(comment), interval_seconds); });
}

int pfs_task_begin(const char* name) {
  return Guarded([=] { return BeginTask(TextOf(name)); });
}

int pfs_task_end(const char* name, int failed) {
  return Guarded([=] { return EndTask(TextOf(name), failed != 0); });
}

int pfs_register_function(const char* name, const char* return_type, const char* type, const char* library) {
  return Guarded([=] { return RegisterFunction(TextOf(name), TextOf(return_type), TextOf(type), TextOf(library)); });
}

int pfs_function_use(const char* name, int change) {
  return Guarded([=] { return UseFunction(TextOf(name), change); });
}

int pfs_unregister_row(enum pfs_row_kind kind, const char* name) {
  return Guarded([=] {
    if (!IsBelow(kind, std::size(kRowKinds))) return NoSuch("kind of row", kind, "PFS_ROW_METER to PFS_ROW_FUNCTION");
    return RemoveProgramRow(kRowKinds[kind], TextOf(name));
  });
}

// ---- log.h. It allocates only the message of a failure.

int pfs_log(enum pfs_log_priority priority, const char* code, const char* subsystem, const char* message) {
  return pfs_log_bytes(priority, code, subsystem, message, TextOf(message).size());
}

int pfs_log_bytes(enum pfs_log_priority priority, const char* code, const char* subsystem, const char* message, size_t bytes) {
  if (!IsBelow(priority, PFS_LOG_NOTE + 1)) {
    return Guarded([=] { return NoSuch("priority", priority, "PFS_LOG_SYSTEM, _ERROR, _WARNING and _NOTE"); });
  }
  if (message == nullptr) {
    return Guarded([] { return Status(Code::kInvalidArgument, "there is no message to log"); });
  }
  return WriteLog(static_cast<LogPriority>(priority), TextOf(code), TextOf(subsystem), {message, bytes}) ? PFS_OK : PFS_E_FULL;
}

}  // extern "C"
