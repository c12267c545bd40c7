// accounts, users, hosts, and the summaries of waits by each: (key of the principal) x (statistics).
#include "aggregate/resets.h"
#include "snapshot/sums.h"
#include "tables/keys.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

template <typename Key>
struct Principal {
  Key key;
  int64_t current, total;
  uint64_t most_controlled_memory, most_memory;
};

template <typename Key>
constexpr auto kPrincipalColumns =
    columns(Key::template Columns<&Principal<Key>::key>(),
            col<&Principal<Key>::current>("CURRENT_CONNECTIONS", Unit::kCount, "Live threads that belong to it."),
            col<&Principal<Key>::total>("TOTAL_CONNECTIONS", Unit::kCount,
                                        "Threads that have belonged to it; a thread that comes back counts again.")
                .combines(Combine::kSum),
            col<&Principal<Key>::most_controlled_memory>("MAX_SESSION_CONTROLLED_MEMORY", Unit::kBytes,
                                                         "Peak of controlled memory of one of its threads."),
            col<&Principal<Key>::most_memory>("MAX_SESSION_TOTAL_MEMORY", Unit::kBytes, "Peak of memory of one of its threads."));

template <Level kLevel, typename Key>
void ScanPrincipals(const Snapshot& snapshot, RowSink<Principal<Key>> out) {
  ForEachPrincipal(snapshot, kLevel, [&](const PrincipalRow& row) {
    out({Key::Of(row), row.current_connections, row.total_connections, row.max_controlled_memory, row.max_total_memory});
  });
}

template <Level kLevel, typename Key>
constexpr TableDef PrincipalTable(std::string_view doc) {
  TableDef table;
  table.doc = doc;
  table.ops = kSelect | kTruncate;
  table.key = Key::kKey;
  table.columns = columns_of<kPrincipalColumns<Key>>;
  table.scan = internal::MakeScan<Principal<Key>, ScanPrincipals<kLevel, Key>>();
  table.truncate = ForgetPrincipals<kLevel>;
  return table;
}

template <Level kLevel, typename Key>
void WaitsByPrincipal(const Snapshot& snapshot, RowSink<SummaryRow<PrincipalEventKey<Key>, Stat>> out) {
  ForEachSum(snapshot, Kind::kWait, kLevel, [&](const SumRow& row) {
    out({{Key::Of(*row.principal), row.instrument->name}, WaitStatIn(row.numbers)});
  });
}

}  // namespace

constexpr TableDef tables::accounts = PrincipalTable<Level::kAccount, AccountKey>("Accounts of threads: users on hosts.");
static_assert(ok(tables::accounts));
constexpr TableDef tables::users = PrincipalTable<Level::kUser, UserKey>("Users of threads.");
static_assert(ok(tables::users));
constexpr TableDef tables::hosts = PrincipalTable<Level::kHost, HostKey>("Hosts of the users of threads.");
static_assert(ok(tables::hosts));

constexpr TableDef tables::events_waits_summary_by_account_by_event_name =
    summary<PrincipalEventKey<AccountKey>, Stat, WaitsByPrincipal<Level::kAccount, AccountKey>>(
        "Waits of all threads of each account, ended ones included, by instrument.", ResetLevel<Kind::kWait, Level::kAccount>);
static_assert(ok(tables::events_waits_summary_by_account_by_event_name));
constexpr TableDef tables::events_waits_summary_by_user_by_event_name =
    summary<PrincipalEventKey<UserKey>, Stat, WaitsByPrincipal<Level::kUser, UserKey>>(
        "Waits of all threads of each user, ended ones included, by instrument.", ResetLevel<Kind::kWait, Level::kUser>);
static_assert(ok(tables::events_waits_summary_by_user_by_event_name));
constexpr TableDef tables::events_waits_summary_by_host_by_event_name =
    summary<PrincipalEventKey<HostKey>, Stat, WaitsByPrincipal<Level::kHost, HostKey>>(
        "Waits of all threads of each host, ended ones included, by instrument.", ResetLevel<Kind::kWait, Level::kHost>);
static_assert(ok(tables::events_waits_summary_by_host_by_event_name));

}  // namespace perfschema
