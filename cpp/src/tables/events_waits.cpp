// events_waits_*: three views of the same records.
#include "snapshot/events.h"
#include "tables/event_tables.h"

namespace perfschema {
namespace {

constexpr auto kWaitColumns = columns(
    event_columns<&WaitRow::event>(), time_columns<&WaitRow::event>(),
    col<&WaitRow::spins>("SPINS", Unit::kCount, "Spin rounds of a spinning lock; NULL for others."),
    col<&WaitRow::object_schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of a table; NULL for other objects."),
    col<&WaitRow::object_name>("OBJECT_NAME", Unit::kNone, "Name of the object: path of a file, IP:PORT of a socket; NULL if it has none."),
    col<&WaitRow::index_name>("INDEX_NAME", Unit::kNone, "Index of a table; NULL for other objects."),
    col<&WaitRow::object_type>("OBJECT_TYPE", Unit::kNone, "FILE, SOCKET ...; NULL for objects without a type of their own."),
    col<&WaitRow::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone,
                          "Identity of the object; joins the *_instances tables; 0 if none is known."),
    nesting_columns<&WaitRow::event>(), col<&WaitRow::operation>("OPERATION", Unit::kNone, "Operation, such as lock, read, write."),
    col<&WaitRow::number_of_bytes>("NUMBER_OF_BYTES", Unit::kBytes, "Bytes read or written, sent or received; NULL for others."),
    col<&WaitRow::flags>("FLAGS", Unit::kNone, "Flags given to open; 0 for other operations on files, NULL for other waits."));

template <uint32_t kView>
constexpr TableDef WaitTable(std::string_view doc) {
  return EventTable<WaitRow, ForEachWait, Kind::kWait, kView>(doc, columns_of<kWaitColumns>);
}

}  // namespace

PFS_EVENT_TABLES_(waits, WaitTable, "The open waits of each live thread, or else its last wait.");

void tables::AppendRowOfWaits(const void* row, SqlText& out) { AppendRow<kWaitColumns>(row, out); }

}  // namespace perfschema
