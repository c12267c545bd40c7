// tables/keys.h: the keys of summaries. Each says its columns and its primary key; table/stat_columns.h multiplies them
// with statistics.
#pragma once

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

struct ThreadEventKey {
  uint64_t thread_id;
  Text<128> event_name;
  static constexpr KeyColumns kKey{"THREAD_ID", "EVENT_NAME"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        col<Path..., &ThreadEventKey::thread_id>("THREAD_ID", Unit::kNone, "Live thread; joins threads.THREAD_ID."),
        col<Path..., &ThreadEventKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc));
  }
};

inline constexpr std::string_view kUserDoc = "User that threads work for; NULL for threads that work for nobody.";
inline constexpr std::string_view kHostDoc = "Host of the user; NULL for threads that work for nobody.";

// Parties, and parties by instrument.
struct AccountKey {
  std::optional<Char<32>> user;
  std::optional<Char<255>> host;
  static constexpr KeyColumns kKey{"USER", "HOST"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &AccountKey::user>("USER", Unit::kNone, kUserDoc),
                   col<Path..., &AccountKey::host>("HOST", Unit::kNone, kHostDoc));
  }
  static AccountKey Of(const PartyRow& party) { return {party.user, party.host}; }
};
struct UserKey {
  std::optional<Char<32>> user;
  static constexpr KeyColumns kKey{"USER"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &UserKey::user>("USER", Unit::kNone, kUserDoc));
  }
  static UserKey Of(const PartyRow& party) { return {party.user}; }
};
struct HostKey {
  std::optional<Char<255>> host;
  static constexpr KeyColumns kKey{"HOST"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &HostKey::host>("HOST", Unit::kNone, kHostDoc));
  }
  static HostKey Of(const PartyRow& party) { return {party.host}; }
};
template <typename Party>
struct PartyEventKey {
  Party party;
  Text<128> event_name;
  static constexpr KeyColumns kKey = [] {
    KeyColumns key = Party::kKey;
    key.names[key.count++] = "EVENT_NAME";
    return key;
  }();
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(Party::template Columns<Path..., &PartyEventKey::party>(),
                   col<Path..., &PartyEventKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc));
  }
};

struct ObjectKey {
  Text<128> event_name;
  uint64_t object;
  static constexpr KeyColumns kKey{"OBJECT_INSTANCE_BEGIN"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        col<Path..., &ObjectKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc),
        col<Path..., &ObjectKey::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Identity of the live object."));
  }
};

struct FileKey {
  Text<512> file_name;
  Text<128> event_name;
  uint64_t object;
  static constexpr KeyColumns kKey{"OBJECT_INSTANCE_BEGIN"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        col<Path..., &FileKey::file_name>("FILE_NAME", Unit::kNone, "Absolute path; joins file_instances.FILE_NAME."),
        col<Path..., &FileKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc),
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
    return columns(TableKey::Columns<Path..., &IndexKey::table>(),
                   col<Path..., &IndexKey::index_name>("INDEX_NAME", Unit::kNone, "Index that was used; NULL for rows reached through none, and for inserted ones."));
  }
};

}  // namespace perfschema
