// record/declared/program.h: other rows that the program declares: connection attributes, hosts, logins, meters,
// loggers, tasks, functions. Their facts:
//
//   kConnectAttrs  texts: name and value of each attribute, in order
//   kMeter         texts: name, description; setting: MeterSetting        kMetric  texts: name, meter, unit, description; numbers: type,
//   number type kLogger        texts: name, description; setting: level               kTask    texts: name, comment; numbers: interval,
//   run, failed, running kFunction      texts: name, return type, type, library; numbers: uses kHostSeen      texts: IP, host; numbers:
//   HostNumber kFailedLogin   texts: 'user'@'host'; numbers: attempts kAccountLock   texts: user, host; numbers: locked, failed, remaining,
//   days, since, until (microseconds, 0 = NULL)
#pragma once

#include <span>

#include "record/declared/variables.h"

namespace perfschema {

// All functions return kInvalidArgument for a name or a value that breaks a rule, kNotFound, or kFull. Names are
// case-sensitive.

struct ConnectAttribute {
  std::string_view name;
  OptionalText value;
};
// Sets all attributes of the calling thread's session and drops the previous ones (semantics.md G14).
Status SetConnectAttributes(std::span<const ConnectAttribute> attributes);

// ---- setup_meters, setup_metrics, setup_loggers. A key is 0 while pfs is off.

inline constexpr uint32_t kMostMeterFrequency = 16777215;
constexpr uint64_t MeterSetting(uint32_t frequency, bool is_enabled) { return uint64_t{frequency} << 1 | (is_enabled ? 1 : 0); }
Status RegisterMeter(std::string_view name, uint32_t frequency, bool is_enabled, std::string_view description, uint32_t* key);
Status RegisterMetric(std::string_view name, std::string_view meter, uint32_t type, uint32_t number_type, std::string_view unit,
                      std::string_view description);
Status RegisterLogger(std::string_view name, uint32_t level, std::string_view description, uint32_t* key);
inline constexpr uint32_t kMetricTypeCount = 3, kLogLevelCount = 5;
Status UpdateMeter(std::string_view name, uint32_t frequency, bool is_enabled);
Status UpdateLogger(std::string_view name, uint32_t level);

// ---- component_scheduler_tasks, user_defined_functions

Status RegisterTask(std::string_view name, std::string_view comment, uint32_t interval_seconds);
Status BeginTask(std::string_view name);
Status EndTask(std::string_view name, bool has_failed);
Status RegisterFunction(std::string_view name, std::string_view return_type, std::string_view type, std::string_view library);
Status UseFunction(std::string_view name, int64_t change);

// Removes a row of one of the kinds above. Removing a meter removes its metrics.
Status RemoveProgramRow(FactKind kind, std::string_view name);

// ---- host_cache, connection_control_failed_login_attempts, temporary_account_locks

inline constexpr uint32_t kHostErrorCount = 23;  // columns COUNT_*, in order
inline constexpr uint32_t kHandshakeError = 10;  // COUNT_HANDSHAKE_ERRORS
enum HostNumber : size_t {
  kHostValidated = 0,
  kHostConnectErrors,
  kHostErrors,
  kHostFirstSeen = kHostErrors + kHostErrorCount,
  kHostLastSeen,
  kHostFirstError,
  kHostLastError,
  kHostNumbers
};
// Counts a connection from a host. An empty `host` is NULL: not known.
Status SeeHost(std::string_view ip, std::string_view host, bool is_validated);
// Counts an error of a host, which may be new.
Status CountHostError(std::string_view ip, uint32_t error);
Status ForgetHost(std::string_view ip);
Status ForgetAllHosts();

// Counts a login attempt of (user, host): a failure increments the row, a success deletes it.
Status CountLogin(std::string_view user, std::string_view host, bool has_failed);

struct AccountLock {
  bool is_locked;
  int32_t failed_attempts, remaining_attempts, lock_days;
  int64_t locked_since, locked_until;  // seconds since 1970; 0 = NULL
};
// Sets or replaces the row. nullptr removes it.
Status SetAccountLock(std::string_view user, std::string_view host, const AccountLock* lock);

}  // namespace perfschema
