// *_instances: the live objects.
#include <charconv>

#include "snapshot/objects.h"
#include "tables/tables.h"

namespace perfschema {
namespace {
enum class SocketState : uint8_t { kIdle = 0, kActive };
}

template <>
struct EnumNames<SocketState> {
  static constexpr std::string_view kValues[] = {"IDLE", "ACTIVE"};
};

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
  out.Expect(MostInstances(snapshot));
  ForEachInstance(snapshot, [&](const InstanceRow& row) {
    if (row.instrument->family == Family::kMutex) out({row.instrument->name, row.identity, row.owner_thread_id});
  });
}

struct RwlockInstance {
  Text<128> name;
  uint64_t object;
  std::optional<uint64_t> write_locked_by;
  uint32_t read_locked_by;
};
constexpr auto kRwlockColumns =
    columns(col<&RwlockInstance::name>("NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."),
            col<&RwlockInstance::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Address of the lock."),
            col<&RwlockInstance::write_locked_by>("WRITE_LOCKED_BY_THREAD_ID", Unit::kNone,
                                                  "Thread that holds it for writing, exclusively or shared-exclusively; "
                                                  "joins threads.THREAD_ID; NULL if none does."),
            col<&RwlockInstance::read_locked_by>("READ_LOCKED_BY_COUNT", Unit::kCount, "Read or shared locks that are held."));
void ScanRwlocks(const Snapshot& snapshot, RowSink<RwlockInstance> out) {
  ForEachInstance(snapshot, [&](const InstanceRow& row) {
    const Family family = row.instrument->family;
    if (family != Family::kRwlock && family != Family::kPrlock && family != Family::kSxlock) return;
    // The owner is read last. If a writer excludes readers, the readers that were counted before have left.
    const bool has_writer_only = row.owner_thread_id.has_value() && family != Family::kSxlock;
    out({row.instrument->name, row.identity, row.owner_thread_id, has_writer_only ? 0 : row.shared_count});
  });
}

struct CondInstance {
  Text<128> name;
  uint64_t object;
};
constexpr auto kCondColumns = columns(col<&CondInstance::name>("NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."),
                                      col<&CondInstance::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Address of the condition."));
void ScanConds(const Snapshot& snapshot, RowSink<CondInstance> out) {
  ForEachInstance(snapshot, [&](const InstanceRow& row) {
    if (row.instrument->family == Family::kCond) out({row.instrument->name, row.identity});
  });
}

struct FileInstance {
  OwnText<512> file_name;
  Text<128> event_name;
  uint32_t open_count;
};
constexpr auto kFileColumns =
    columns(col<&FileInstance::file_name>("FILE_NAME", Unit::kNone, "Absolute path."),
            col<&FileInstance::event_name>("EVENT_NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."),
            col<&FileInstance::open_count>("OPEN_COUNT", Unit::kCount, "Open descriptors of the file."));
void ScanFiles(const Snapshot& snapshot, RowSink<FileInstance> out) {
  out.Expect(CountFiles(snapshot, Family::kFile));
  ForEachFile(snapshot, kFileName, [&](const FileRow& row) {
    if (row.instrument->family == Family::kFile) out({row.name, row.instrument->name, row.open_count});
  });
}

struct SocketInstance {
  Text<128> event_name;
  uint64_t object;
  std::optional<uint64_t> thread_id;
  int32_t socket_id;
  Text<64> ip;
  int32_t port;
  SocketState state;
};
constexpr auto kSocketColumns = columns(
    col<&SocketInstance::event_name>("EVENT_NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."),
    col<&SocketInstance::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone,
                                 "Identity of the socket; joins events_waits_current.OBJECT_INSTANCE_BEGIN."),
    col<&SocketInstance::thread_id>("THREAD_ID", Unit::kNone, "Thread that it was assigned to; joins threads.THREAD_ID; NULL if none."),
    col<&SocketInstance::socket_id>("SOCKET_ID", Unit::kNone, "Its descriptor."),
    col<&SocketInstance::ip>("IP", Unit::kNone, "Address of the peer, else its own; empty if it has none, or a path (AF_UNIX)."),
    col<&SocketInstance::port>("PORT", Unit::kNone, "Port of that address; 0 if there is none."),
    col<&SocketInstance::state>("STATE", Unit::kNone, "IDLE while the program declares that it waits for a client."));
// The name of a socket is "IP:PORT" as record/family/sockets.cpp writes it. Any other text (a damaged segment) has
// neither part.
struct SocketAddress {
  std::string_view ip;
  int32_t port = 0;
};
SocketAddress AddressOf(const FileRow& row) {
  const std::string_view name = row.name.view();
  const size_t colon = name.rfind(':');
  if ((row.state & kSocketIsLocal) != 0 || colon == std::string_view::npos) return {};
  SocketAddress address{name.substr(0, colon)};
  const std::string_view port = name.substr(colon + 1);
  if (std::from_chars(port.data(), port.data() + port.size(), address.port).ec != std::errc()) return {};
  return address;
}
void ScanSockets(const Snapshot& snapshot, RowSink<SocketInstance> out) {
  out.Expect(CountFiles(snapshot, Family::kSocket));
  ForEachFile(snapshot, kFileName, [&](const FileRow& row) {
    if (row.instrument->family != Family::kSocket) return;
    const SocketAddress address = AddressOf(row);
    out({row.instrument->name, row.identity, row.thread_id, static_cast<int32_t>(row.descriptor), address.ip, address.port,
         (row.state & kSocketIdle) != 0 ? SocketState::kIdle : SocketState::kActive});
  });
}

}  // namespace

constexpr TableDef tables::mutex_instances{
    .doc = "The instrumented mutexes that exist, and the threads that hold them.",
    .key = {"OBJECT_INSTANCE_BEGIN"},
    .columns = columns_of<kMutexColumns>,
    .scan = scan<&ScanMutexes>,
};
static_assert(ok(tables::mutex_instances));

constexpr TableDef tables::rwlock_instances{
    .doc = "The instrumented read-write locks of all kinds that exist (rwlock, prlock, sxlock), and the threads that hold them.",
    .key = {"OBJECT_INSTANCE_BEGIN"},
    .columns = columns_of<kRwlockColumns>,
    .scan = scan<&ScanRwlocks>,
};
static_assert(ok(tables::rwlock_instances));

constexpr TableDef tables::cond_instances{
    .doc = "The instrumented conditions that exist.",
    .key = {"OBJECT_INSTANCE_BEGIN"},
    .columns = columns_of<kCondColumns>,
    .scan = scan<&ScanConds>,
};
static_assert(ok(tables::cond_instances));

constexpr TableDef tables::file_instances{
    .doc = "The files that were opened and not deleted.",
    .key = {"FILE_NAME"},
    .columns = columns_of<kFileColumns>,
    .scan = scan<&ScanFiles>,
};
static_assert(ok(tables::file_instances));

constexpr TableDef tables::socket_instances{
    .doc = "The instrumented sockets that are open.",
    .key = {"OBJECT_INSTANCE_BEGIN"},
    .columns = columns_of<kSocketColumns>,
    .scan = scan<&ScanSockets>,
};
static_assert(ok(tables::socket_instances));

}  // namespace perfschema
