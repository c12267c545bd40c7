// Attributes of sessions, and the program's reports of hosts and logins.
#include <algorithm>
#include <unordered_map>

#include "record/declared/program.h"
#include "snapshot/program.h"
#include "snapshot/threads.h"
#include "tables/tables.h"
#include "tables/variable_rows.h"

namespace perfschema {
namespace {

// ---- session_connect_attrs

struct AttributeRow {
  uint64_t processlist_id;
  Text<32> name;
  std::optional<Text<1024>> value;
  std::optional<int32_t> position;
};
constexpr auto kAttributeColumns =
    columns(col<&AttributeRow::processlist_id>("PROCESSLIST_ID", Unit::kNone, "Number of the session; joins processlist.ID."),
            col<&AttributeRow::name>("ATTR_NAME", Unit::kNone, "Name of the attribute; _truncated: the number of bytes that did not fit."),
            col<&AttributeRow::value>("ATTR_VALUE", Unit::kNone, "Its value."),
            col<&AttributeRow::position>("ORDINAL_POSITION", Unit::kNone, "Position among the attributes of the session, from 0."));

// Outputs the attributes of the sessions that `is_shown` selects.
template <typename IsShown>
void ScanConnectAttributes(const Snapshot& snapshot, RowSink<AttributeRow> out, IsShown is_shown) {
  std::unordered_map<uint64_t, uint64_t> sessions;
  for (const ThreadRow& row : Threads(snapshot)) {
    if (row.processlist_id && is_shown(row)) sessions[row.thread_id] = *row.processlist_id;
  }
  ForEachFact(snapshot, FactKind::kConnectAttrs, [&](const FactRow& row) {
    const auto session = sessions.find(row.owner);
    if (session == sessions.end()) return;
    for (size_t i = 0; i + 1 < row.texts.size(); i += 2) {
      out({session->second, row.text(i), row.optional<Text<1024>>(i + 1), static_cast<int32_t>(i / 2)});
    }
  });
}
void ScanAllSessions(const Snapshot& snapshot, RowSink<AttributeRow> out) {
  ScanConnectAttributes(snapshot, out, [](const ThreadRow&) { return true; });
}
void ScanOwnSessions(const Snapshot& snapshot, RowSink<AttributeRow> out) {
  const uint64_t reader = ReaderOf(snapshot);
  std::optional<ThreadRow> own;
  for (const ThreadRow& row : Threads(snapshot)) {
    if (reader != 0 && row.thread_id == reader) own = row;
  }
  if (!own) return;  // a thread of another process, or without an instrumentation: it has no account here
  const auto is_same = [](const auto& a, const auto& b) { return a.has_value() == b.has_value() && (!a || a->view() == b->view()); };
  ScanConnectAttributes(snapshot, out, [&](const ThreadRow& row) { return is_same(row.user, own->user) && is_same(row.host, own->host); });
}

// ---- host_cache

struct HostRow {
  Text<64> ip;
  std::optional<Text<255>> host;
  YesNo validated;
  int64_t connect_errors;
  int64_t errors[kHostErrorCount];
  Timestamp0 first_seen, last_seen;
  std::optional<Timestamp0> first_error, last_error;
  template <uint32_t kError>
  int64_t count() const {
    return errors[kError];
  }
};
template <uint32_t kError>
constexpr Column Errors(FixedText<48> name, FixedText<200> doc) {
  return col<&HostRow::count<kError>>(name, Unit::kCount, doc);
}
constexpr auto kHostColumns = columns(
    col<&HostRow::ip>("IP", Unit::kNone, "Address of the client."),
    col<&HostRow::host>("HOST", Unit::kNone, "Name of its host; NULL if it is not known.").across(Across::kSame),
    col<&HostRow::validated>("HOST_VALIDATED", Unit::kNone, "Whether the name was looked up for that address.").across(Across::kSame),
    col<&HostRow::connect_errors>("SUM_CONNECT_ERRORS", Unit::kCount,
                                  "Handshake errors during validation of the host: these may block it."),
    Errors<0>("COUNT_HOST_BLOCKED_ERRORS", "Connections refused because the host was blocked."),
    Errors<1>("COUNT_NAMEINFO_TRANSIENT_ERRORS", "Name lookups that failed temporarily."),
    Errors<2>("COUNT_NAMEINFO_PERMANENT_ERRORS", "Name lookups that failed permanently."),
    Errors<3>("COUNT_FORMAT_ERRORS", "Names that look like an address."),
    Errors<4>("COUNT_ADDRINFO_TRANSIENT_ERRORS", "Address lookups of the name that failed temporarily."),
    Errors<5>("COUNT_ADDRINFO_PERMANENT_ERRORS", "Address lookups of the name that failed permanently."),
    Errors<6>("COUNT_FCRDNS_ERRORS", "Names whose addresses are not that of the client."),
    Errors<7>("COUNT_HOST_ACL_ERRORS", "Clients on a host that no user may connect from."),
    Errors<8>("COUNT_NO_AUTH_PLUGIN_ERRORS", "Requests for an unknown authentication method."),
    Errors<9>("COUNT_AUTH_PLUGIN_ERRORS", "Errors that an authentication method reported."),
    Errors<10>("COUNT_HANDSHAKE_ERRORS", "Errors of the protocol before the client was known."),
    Errors<11>("COUNT_PROXY_USER_ERRORS", "Proxy users who may not act for the user that they named."),
    Errors<12>("COUNT_PROXY_USER_ACL_ERRORS", "Users named by a proxy user who do not exist."),
    Errors<13>("COUNT_AUTHENTICATION_ERRORS", "Wrong passwords and the like."), Errors<14>("COUNT_SSL_ERRORS", "Errors of encryption."),
    Errors<15>("COUNT_MAX_USER_CONNECTIONS_ERRORS", "Connections beyond those that a user may have."),
    Errors<16>("COUNT_MAX_USER_CONNECTIONS_PER_HOUR_ERRORS", "Connections beyond those that a user may make within an hour."),
    Errors<17>("COUNT_DEFAULT_DATABASE_ERRORS", "Databases that do not exist, or that the user may not use."),
    Errors<18>("COUNT_INIT_CONNECT_ERRORS", "Failures of the commands at the start of each session."),
    Errors<19>("COUNT_LOCAL_ERRORS", "Internal errors of the program, such as no memory."),
    Errors<20>("COUNT_ACCOUNT_LOCKED_ERRORS", "Logins to accounts that were locked."),
    Errors<21>("COUNT_TEMPORARY_ACCOUNT_LOCKED_ERRORS", "Logins to accounts that were locked temporarily."),
    Errors<22>("COUNT_UNKNOWN_ERRORS", "Other errors."), col<&HostRow::first_seen>("FIRST_SEEN", Unit::kNone, "When it was first seen."),
    col<&HostRow::last_seen>("LAST_SEEN", Unit::kNone, "When it was last seen."),
    col<&HostRow::first_error>("FIRST_ERROR_SEEN", Unit::kNone, "When it had its first error."),
    col<&HostRow::last_error>("LAST_ERROR_SEEN", Unit::kNone, "When it had its last error."));
void ScanHosts(const Snapshot& snapshot, RowSink<HostRow> out) {
  ForEachFact(snapshot, FactKind::kHostSeen, [&](const FactRow& row) {
    HostRow host{};
    host.ip = row.text(0);
    host.host = row.optional<Text<255>>(1);
    host.validated = YesIf(row.number(kHostValidated) != 0);
    host.connect_errors = static_cast<int64_t>(row.number(kHostConnectErrors));
    for (uint32_t i = 0; i < kHostErrorCount; ++i) host.errors[i] = static_cast<int64_t>(row.number(kHostErrors + i));
    const auto time = [&](size_t i) { return Timestamp0{static_cast<int64_t>(row.number(i))}; };
    host.first_seen = time(kHostFirstSeen);
    host.last_seen = time(kHostLastSeen);
    if (row.number(kHostFirstError) != 0) host.first_error = time(kHostFirstError);
    if (row.number(kHostLastError) != 0) host.last_error = time(kHostLastError);
    out(host);
  });
}

// ---- Logins

struct FailedLoginRow {
  Text<6553> account;
  int32_t attempts;
};
constexpr auto kFailedLoginColumns = columns(col<&FailedLoginRow::account>("USERHOST", Unit::kNone, "The account, as 'user'@'host'."),
                                             col<&FailedLoginRow::attempts>("FAILED_ATTEMPTS", Unit::kCount, "Consecutive failed logins."));
void ScanFailedLogins(const Snapshot& snapshot, RowSink<FailedLoginRow> out) {
  ForEachFact(snapshot, FactKind::kFailedLogin, [&](const FactRow& row) { out({row.text(0), static_cast<int32_t>(row.number(0))}); });
}

struct LockRow {
  Char<32> user;
  Char<255> host;
  YesNo locked;
  int32_t failed, remaining, days;
  std::optional<Date> since, until;
};
constexpr auto kLockColumns = columns(
    col<&LockRow::user>("USER", Unit::kNone, "User of the account."), col<&LockRow::host>("HOST", Unit::kNone, "Host of the account."),
    col<&LockRow::locked>("LOCKED", Unit::kNone, "Whether it is locked now."),
    col<&LockRow::failed>("FAILED_LOGIN_ATTEMPTS", Unit::kCount, "Consecutive failed logins that lock it."),
    col<&LockRow::remaining>("REMAINING_LOGIN_ATTEMPTS", Unit::kCount, "Remaining failed logins before it is locked."),
    col<&LockRow::days>("PASSWORD_LOCK_TIME", Unit::kNone, "Number of days that the lock lasts."),
    col<&LockRow::since>("LOCKED_SINCE", Unit::kNone, "Day on which it was locked."),
    col<&LockRow::until>("LOCKED_UNTIL", Unit::kNone, "Day until which it is locked."));
void ScanAccountLocks(const Snapshot& snapshot, RowSink<LockRow> out) {
  ForEachFact(snapshot, FactKind::kAccountLock, [&](const FactRow& row) {
    const auto number = [&](size_t i) { return static_cast<int32_t>(row.number(i)); };
    const auto day = [&](size_t i) { return row.number(i) == 0 ? std::optional<Date>() : Date{static_cast<int64_t>(row.number(i))}; };
    out({row.text(0), row.text(1), YesIf(row.number(0) != 0), number(1), number(2), number(3), day(4), day(5)});
  });
}

}  // namespace

constexpr TableDef tables::session_connect_attrs{
    .doc = "Attributes that the clients of all sessions sent.",
    .key = {"PROCESSLIST_ID", "ATTR_NAME"},
    .columns = columns_of<kAttributeColumns>,
    .scan = scan<&ScanAllSessions>,
};
static_assert(ok(tables::session_connect_attrs));

constexpr TableDef tables::session_account_connect_attrs{
    .doc = "Attributes that the clients of the reader's account sent; empty in another process.",
    .key = {"PROCESSLIST_ID", "ATTR_NAME"},
    .columns = columns_of<kAttributeColumns>,
    .scan = scan<&ScanOwnSessions>,
};
static_assert(ok(tables::session_account_connect_attrs));

constexpr TableDef tables::host_cache{
    .doc = "Hosts that the program has seen, and their errors.",
    .ops = kSelect | kTruncate,
    .key = {"IP"},
    .columns = columns_of<kHostColumns>,
    .scan = scan<&ScanHosts>,
    .truncate = ForgetAllHosts,
    .available_when_disabled = true,
};
static_assert(ok(tables::host_cache));

constexpr TableDef tables::connection_control_failed_login_attempts{
    .doc = "Accounts whose last logins failed.",
    .columns = columns_of<kFailedLoginColumns>,
    .scan = scan<&ScanFailedLogins>,
};
static_assert(ok(tables::connection_control_failed_login_attempts));

constexpr TableDef tables::temporary_account_locks{
    .doc = "Accounts that failed logins lock temporarily.",
    .key = {"USER", "HOST"},
    .columns = columns_of<kLockColumns>,
    .scan = scan<&ScanAccountLocks>,
    .available_when_disabled = true,
};
static_assert(ok(tables::temporary_account_locks));

}  // namespace perfschema
