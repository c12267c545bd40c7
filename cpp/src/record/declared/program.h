// record/declared/program.h: what else the program tells: sessions' attributes, hosts, logins, meters, loggers, tasks, functions. Facts of these kinds:
//
//   kConnectAttrs  texts: name and value of each attribute, in order
//   kMeter         texts: name, description; setting: MeterSetting        kMetric  texts: name, meter, unit, description; numbers: type, number type
//   kLogger        texts: name, description; setting: level               kTask    texts: name, comment; numbers: interval, run, failed, running
//   kFunction      texts: name, return type, type, library; numbers: uses
//   kHostSeen      texts: IP, host; numbers: HostNumber
//   kFailedLogin   texts: 'user'@'host'; numbers: attempts
//   kAccountLock   texts: user, host; numbers: locked, failed, remaining, days, since, until (microseconds, 0 = NULL)
#pragma once

#include <span>

#include "record/declared/variables.h"

namespace perfschema {

// Of each: kInvalidArgument for a name or a value that breaks a rule, kNotFound, kFull. Names are told apart to the letter.

struct ConnectAttribute {
  std::string_view name;
  OptionalText value;
};
// All of the calling thread's session: what it had before goes (SEMANTICS G14).
Status SetConnectAttributes(std::span<const ConnectAttribute> attributes);

// ---- setup_meters, setup_metrics, setup_loggers. A key is 0 where pfs is off.

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

// Removes a row of one of the kinds above; a meter's metrics go with it.
Status RemoveProgramRow(FactKind kind, std::string_view name);

// ---- host_cache, connection_control_failed_login_attempts, temporary_account_locks

inline constexpr uint32_t kHostErrorCount = 23;    // columns COUNT_*, in order
inline constexpr uint32_t kHandshakeError = 10;    // COUNT_HANDSHAKE_ERRORS
enum HostNumber : size_t { kHostValidated = 0, kHostConnectErrors, kHostErrors, kHostFirstSeen = kHostErrors + kHostErrorCount, kHostLastSeen,
                           kHostFirstError, kHostLastError, kHostNumbers };
// `host` empty = NULL: not known.
Status SeeHost(std::string_view ip, std::string_view host, bool is_validated);
// One more of an error, at a host that may not have been seen before.
Status CountHostError(std::string_view ip, uint32_t error);
Status ForgetHost(std::string_view ip);
Status ForgetAllHosts();

// One more that failed; or one that did not, which ends the row.
Status CountLogin(std::string_view user, std::string_view host, bool has_failed);

struct AccountLock {
  bool is_locked;
  int32_t failed_attempts, remaining_attempts, lock_days;
  int64_t locked_since, locked_until;  // seconds since 1970; 0 = NULL
};
// nullptr: the row goes.
Status SetAccountLock(std::string_view user, std::string_view host, const AccountLock* lock);

}  // namespace perfschema
