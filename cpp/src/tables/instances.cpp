// *_instances: the live objects.
#include "tables/tables.h"

namespace perfschema {
namespace {

struct MutexInstance {
  Text<128> name;
  uint64_t object;
  std::optional<uint64_t> locked_by;
};
constexpr auto kMutexColumns =
    columns(col<&MutexInstance::name>("NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."),
            col<&MutexInstance::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Address of the mutex."),
            col<&MutexInstance::locked_by>("LOCKED_BY_THREAD_ID", Unit::kNone,
                                           "Thread that holds it; joins threads.THREAD_ID; NULL if it is free."));
void ScanMutexes(const Snapshot& snapshot, RowSink<MutexInstance> out) {
  snapshot.ForEachInstance([&](const InstanceRow& row) {
    if (row.instrument->family == Family::kMutex) out({row.instrument->name, row.identity, row.owner_thread_id});
  });
}

struct FileInstance {
  Text<512> file_name;
  Text<128> event_name;
  uint32_t open_count;
};
constexpr auto kFileColumns =
    columns(col<&FileInstance::file_name>("FILE_NAME", Unit::kNone, "Absolute path."),
            col<&FileInstance::event_name>("EVENT_NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."),
            col<&FileInstance::open_count>("OPEN_COUNT", Unit::kCount, "Open descriptors of the file."));
void ScanFiles(const Snapshot& snapshot, RowSink<FileInstance> out) {
  snapshot.ForEachFile([&](const FileRow& row) {
    if (row.instrument->family == Family::kFile) out({row.name, row.instrument->name, row.open_count});
  });
}

}  // namespace

constexpr TableDef tables::mutex_instances{
    .doc = "The instrumented mutexes that exist, and who holds them.",
    .key = {"OBJECT_INSTANCE_BEGIN"},
    .columns = kMutexColumns,
    .scan = scan<&ScanMutexes>,
};
static_assert(ok(tables::mutex_instances));

constexpr TableDef tables::file_instances{
    .doc = "The files that were opened and not deleted.",
    .key = {"FILE_NAME"},
    .columns = kFileColumns,
    .scan = scan<&ScanFiles>,
};
static_assert(ok(tables::file_instances));

}  // namespace perfschema
