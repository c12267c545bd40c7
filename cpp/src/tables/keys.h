// tables/keys.h: the keys of summaries. Each key declares its columns and its primary key; table/stat_columns.h
// combines them with statistics.
#pragma once

#include "snapshot/program_tables.h"
#include "snapshot/sums.h"
#include "table/stat_columns.h"

namespace perfschema {

inline constexpr std::string_view kEventNameDoc = "Instrument; joins setup_instruments.NAME.";

struct EventKey {
  Text<128> event_name;
  static constexpr KeyColumns kKey{"EVENT_NAME"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &EventKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc));
  }
};

struct ThreadKey {
  uint64_t thread_id;
  static constexpr KeyColumns kKey{"THREAD_ID"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &ThreadKey::thread_id>("THREAD_ID", Unit::kNone, "Live thread; joins threads.THREAD_ID."));
  }
};

inline constexpr std::string_view kUserDoc = "User of threads; NULL for threads without an account.";
inline constexpr std::string_view kHostDoc = "Host of the user; NULL for threads without an account.";

// Principals, and principals by instrument.
struct AccountKey {
  std::optional<Char<32>> user;
  std::optional<Char<255>> host;
  static constexpr KeyColumns kKey{"USER", "HOST"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &AccountKey::user>("USER", Unit::kNone, kUserDoc),
                   col<Path..., &AccountKey::host>("HOST", Unit::kNone, kHostDoc));
  }
  static AccountKey Of(const PrincipalRow& principal) { return {principal.user, principal.host}; }
};
struct UserKey {
  std::optional<Char<32>> user;
  static constexpr KeyColumns kKey{"USER"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &UserKey::user>("USER", Unit::kNone, kUserDoc));
  }
  static UserKey Of(const PrincipalRow& principal) { return {principal.user}; }
};
struct HostKey {
  std::optional<Char<255>> host;
  static constexpr KeyColumns kKey{"HOST"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &HostKey::host>("HOST", Unit::kNone, kHostDoc));
  }
  static HostKey Of(const PrincipalRow& principal) { return {principal.host}; }
};

// The key of a level's row by item: both keys in sequence.
template <typename Member, typename Item>
struct ItemKey {
  Member member;
  Item item;
  static constexpr KeyColumns kKey = [] {
    KeyColumns key = Member::kKey;
    for (size_t i = 0; i < Item::kKey.count; ++i) key.names[key.count++] = Item::kKey.names[i];
    return key;
  }();
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(Member::template Columns<Path..., &ItemKey::member>(), Item::template Columns<Path..., &ItemKey::item>());
  }
};
using ThreadEventKey = ItemKey<ThreadKey, EventKey>;
template <typename Principal>
using PrincipalEventKey = ItemKey<Principal, EventKey>;

// The key of a level's member, from the row that ForEachSum supplies.
template <Level kLevel>
struct MemberOf;
template <>
struct MemberOf<Level::kThread> {
  using Key = ThreadKey;
  static Key Of(const SumRow& row) { return {row.thread_id}; }
};
template <typename Principal>
struct PrincipalOf {
  using Key = Principal;
  static Key Of(const SumRow& row) { return Principal::Of(*row.principal); }
};
template <>
struct MemberOf<Level::kAccount> : PrincipalOf<AccountKey> {};
template <>
struct MemberOf<Level::kUser> : PrincipalOf<UserKey> {};
template <>
struct MemberOf<Level::kHost> : PrincipalOf<HostKey> {};
template <>
struct MemberOf<Level::kGlobal> {
  struct Key {  // all together: no column
    static constexpr KeyColumns kKey{};
    template <auto... Path>
    static constexpr auto Columns() {
      return columns();
    }
  };
  static Key Of(const SumRow&) { return {}; }
};

struct ObjectKey {
  Text<128> event_name;
  uint64_t object;
  static constexpr KeyColumns kKey{"OBJECT_INSTANCE_BEGIN"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &ObjectKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc).across(Across::kSame),
                   col<Path..., &ObjectKey::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Identity of the live object."));
  }
};

struct FileKey {
  OwnText<512> file_name;
  Text<128> event_name;
  uint64_t object;
  static constexpr KeyColumns kKey{"OBJECT_INSTANCE_BEGIN"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        col<Path..., &FileKey::file_name>("FILE_NAME", Unit::kNone, "Absolute path; joins file_instances.FILE_NAME.").across(Across::kSame),
        col<Path..., &FileKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc).across(Across::kSame),
        col<Path..., &FileKey::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone,
                                       "Identity of the file; joins events_waits_current.OBJECT_INSTANCE_BEGIN."));
  }
};

// Tables of the program, and their indexes.
struct TableKey {
  std::optional<Text<64>> type, schema, name;
  static constexpr KeyColumns kKey{"OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &TableKey::type>("OBJECT_TYPE", Unit::kNone, "TABLE or TEMPORARY TABLE."),
                   col<Path..., &TableKey::schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of the table; NULL if it has none."),
                   col<Path..., &TableKey::name>("OBJECT_NAME", Unit::kNone, "Name of the table."));
  }
  static TableKey Of(const TableRow& row) {
    TableKey key{Text<64>(kObjectTypeNames[static_cast<uint32_t>(row.type)]), {}, row.name};
    if (row.schema.size != 0) key.schema = row.schema;
    return key;
  }
};
struct IndexKey {
  TableKey table;
  std::optional<Text<64>> index_name;
  static constexpr KeyColumns kKey{"OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        TableKey::Columns<Path..., &IndexKey::table>(),
        col<Path..., &IndexKey::index_name>(
            "INDEX_NAME", Unit::kNone, "Index that was used; NULL for rows that were reached without an index, and for inserted rows."));
  }
};

}  // namespace perfschema
