// shm/options.h: declares every start-time variable: name, default, range. They determine the sizes of the segment.
//
// Set by PFS_OPTIONS="name=value,...", by pfs_init(options) or pfs.configure(); shown in global_variables.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "shm/rules.h"

namespace perfschema {

// X(identifier, default, minimum, maximum, value that -1 (autosize) stands for, one sentence)
// The SQL name is "performance_schema" for the first, "performance_schema_" + identifier for the others.
#define PFS_FOR_EACH_OPTION(X)                                                                                                   \
  X(performance_schema, 1, 0, 1, 1, "Master switch, fixed at start.")                                                            \
  X(cycle_timer, 1, 0, 1, 1, "0 forbids the cycle counter as a timer.")                                                          \
  X(events_waits_history_size, -1, -1, 1024, 10, "Rows per thread of events_waits_history.")                                     \
  X(events_waits_history_long_size, -1, -1, 1048576, 10000,                                                                      \
    "Rows of events_waits_history_long; -1 = as many as fit a quarter of a processor's second-level cache, 1000 to 10000.")      \
  X(accounts_size, -1, -1, 16384, 1024, "Rows of accounts; 0 = users and hosts only.")                                           \
  X(hosts_size, -1, -1, 16384, 1024, "Rows of hosts.")                                                                           \
  X(users_size, -1, -1, 16384, 1024, "Rows of users.")                                                                           \
  X(digests_size, -1, -1, 1048576, 10000, "Rows of events_statements_summary_by_digest, the one for all others included.")       \
  X(error_size, -1, -1, 1048576, 1024, "Rows of errors, the one for all others included; at most 32768 are used.")               \
  X(events_stages_history_size, -1, -1, 1024, 10, "Rows per thread of events_stages_history.")                                   \
  X(events_stages_history_long_size, -1, -1, 1048576, 10000, "Rows of events_stages_history_long.")                              \
  X(events_statements_history_size, -1, -1, 1024, 10, "Rows per thread of events_statements_history.")                           \
  X(events_statements_history_long_size, -1, -1, 1048576, 10000, "Rows of events_statements_history_long.")                      \
  X(events_transactions_history_size, -1, -1, 1024, 10, "Rows per thread of events_transactions_history.")                       \
  X(events_transactions_history_long_size, -1, -1, 1048576, 10000, "Rows of events_transactions_history_long.")                  \
  X(max_cond_classes, 150, 0, 1024, 150, "Condition instruments.")                                                               \
  X(max_cond_instances, -1, -1, 1048576, 65536, "Instrumented conditions at one time.")                                          \
  X(max_dead_megabytes, 8, 0, 1048576, 8,                                                                                        \
    "MiB that segments of dead processes of this user may take, and a quarter of their file system at most, or a sixteenth if "  \
    "nobody sets this: a process that starts removes older ones.")                                                               \
  X(max_dead_segments, 64, 0, 1048576, 64,                                                                                       \
    "Segments of dead processes of this user that are left: a process that starts removes older ones.")                          \
  X(max_digest_length, 1024, 0, 1048576, 1024, "Bytes of tokens that a digest is made of; 0 = no digests.")                      \
  X(max_digest_sample_age, 60, 0, 1048576, 60,                                                                                   \
    "Seconds after which any statement replaces the sample of its digest; 0 = only a slower one.")                               \
  X(max_file_classes, 80, 0, 1024, 80, "File instruments.")                                                                      \
  X(max_file_system_part, 8, 0, 1048576, 8,                                                                                      \
    "The segment may take one part in this many of its file system, and tables stop to grow there, unless an option sets their " \
    "size; 0 = no such limit.")                                                                                                  \
  X(max_file_handles, 32768, 0, 1048576, 32768, "Highest file descriptor that can be followed, plus one.")                       \
  X(max_file_instances, -1, -1, 1048576, 65536, "Known files at one time.")                                                      \
  X(max_index_stat, -1, -1, 1048576, 65536, "Indexes of tables with statistics, rows without an index included.")                \
  X(max_logger_classes, 80, 0, 200, 80, "Rows of setup_loggers.")                                                                \
  X(max_memory_classes, 470, 0, 1024, 470, "Memory instruments.")                                                                \
  X(max_metadata_locks, -1, -1, 1048576, 65536, "Metadata locks at one time.")                                                   \
  X(max_meter_classes, 30, 0, 64, 30, "Rows of setup_meters.")                                                                   \
  X(max_metric_classes, 600, 0, 11000, 600, "Rows of setup_metrics.")                                                            \
  X(max_mutex_classes, 350, 0, 1024, 350, "Mutex instruments.")                                                                  \
  X(max_mutex_instances, -1, -1, 1048576, 262144, "Instrumented mutexes at one time.")                                           \
  X(max_object_cells, -1, -1, 16777216, 262144, "Statistics of one object as seen by one thread, at one time.")                  \
  X(max_prepared_statements_instances, -1, -1, 4194304, 65536, "Prepared statements at one time.")                               \
  X(max_program_instances, -1, -1, 1048576, 16384, "Stored programs with statistics.")                                           \
  X(max_program_rows, -1, -1, 1048576, 16384, "Rows that the program gives: variables, hosts, tasks and others.")                \
  X(max_rwlock_classes, 100, 0, 1024, 100, "Rwlock, prlock and sxlock instruments.")                                             \
  X(max_rwlock_instances, -1, -1, 1048576, 65536, "Instrumented rwlocks, prlocks and sxlocks at one time.")                      \
  X(max_segment_megabytes, 16, 0, 1048576, 16,                                                                                   \
    "MiB that the segment may take together with those of dead processes of this user, at least a quarter of them; as in "       \
    "max_file_system_part. 0 = no such limit.")                                                                                  \
  X(max_socket_classes, 10, 0, 1024, 10, "Socket instruments.")                                                                  \
  X(max_socket_instances, -1, -1, 1048576, 65536, "Instrumented sockets at one time.")                                           \
  X(max_source_locations, -1, -1, 65535, 16384, "Call sites that SOURCE can tell apart.")                                        \
  X(max_sql_text_length, 1024, 0, 1048576, 1024, "Bytes that are kept of a statement's text.")                                   \
  X(max_stage_classes, 175, 0, 1024, 175, "Stage instruments.")                                                                  \
  X(max_statement_classes, 256, 0, 256, 256, "Statement instruments.")                                                           \
  X(max_statement_stack, 10, 1, 256, 10, "Nested statements of a thread that are recorded.")                                     \
  X(max_status_variables, 256, 0, 1024, 256, "Status variables of the program's own.")                                           \
  X(max_table_handles, -1, -1, 1048576, 65536, "Open tables at one time.")                                                       \
  X(max_table_instances, -1, -1, 1048576, 16384, "Known tables at one time.")                                                    \
  X(max_table_lock_stat, -1, -1, 1048576, 16384, "Tables with statistics of their locks.")                                       \
  X(max_thread_classes, 100, 0, 1024, 100, "Thread instruments.")                                                                \
  X(max_thread_instances, -1, -1, 65536, 4096, "Instrumented threads at one time.")                                              \
  X(sampling_interval, 64, 1, 1048576, 64, "TIMED = 'SAMPLED' times one event in this many, on average.")                        \
  X(session_connect_attrs_size, -1, -1, 1048576, 512, "Bytes of connection attributes per session.")                             \
  X(setup_actors_size, -1, -1, 65536, 1024, "Rows of setup_actors.")                                                             \
  X(setup_objects_size, -1, -1, 65536, 1024, "Rows of setup_objects.")                                                           \
  X(trace_enabled, 0, 0, 1, 1, "Whether the trace is on from the start, of every instrument that is enabled and every thread.")  \
  X(trace_max_size, 0, 0, 1099511627776, 0, "Bytes that a file of the trace may have; 0 = no limit.")                            \
  X(trace_on_limit, 0, 0, 2, 0, "When a file of the trace is full: stop, rotate or drop.")                                       \
  X(overhead_limit, 0, 0, 1000000, 0,                                                                                            \
    "Ceiling of what pfs costs, in millionths of the process's processor time; 1% is legal, too, and 0 = no ceiling.")           \
  X(preset, 0, 0, 2, 0, "Settings for instruments: none = all on, production = for a busy server, sampling = no wait is timed.") \
  X(print_bad_options, 1, 0, 1, 1, "Whether a PFS_OPTIONS or PFS_DIR that is refused is reported on stderr, in one line.")

// Options that are texts. X(identifier, default, one sentence)
#define PFS_FOR_EACH_TEXT_OPTION(X)                                                                                \
  X(digest_normalizer, "sql", "What makes statements of one digest: sql or a dialect, or identity (equal texts).") \
  X(trace_directory, "", "Folder of the files of the trace; empty = pfs-trace-PID in the current directory.")

enum class TextOptionId : uint32_t {
#define X(name, ...) name,
  PFS_FOR_EACH_TEXT_OPTION(X)
#undef X
      kCount
};
inline constexpr uint32_t kTextOptionCount = static_cast<uint32_t>(TextOptionId::kCount);
inline constexpr size_t kTextOptionBytes = 1024;
struct TextOptionTraits {
  std::string_view name, initial, doc;
};
extern const TextOptionTraits kTextOptions[kTextOptionCount];

enum class OptionId : uint32_t {
#define X(name, ...) name,
  PFS_FOR_EACH_OPTION(X)
#undef X
      kCount
};
inline constexpr uint32_t kOptionCount = static_cast<uint32_t>(OptionId::kCount);

// The legal values of an option that is a choice. A value is the place of its word.
inline constexpr std::string_view kLimitWords[] = {"stop", "rotate", "drop"}, kPresetWords[] = {"none", "production", "sampling"};
constexpr std::span<const std::string_view> WordsOf(OptionId id) {
  if (id == OptionId::trace_on_limit) return kLimitWords;
  if (id == OptionId::preset) return kPresetWords;
  return {};
}

// An instrument's number has 16 bits in records of events: errors must leave numbers for all others.
inline constexpr uint64_t kMostClasses = 65536;
inline constexpr uint64_t kMostErrors = 32768;

struct OptionTraits {
  std::string_view name;  // SQL name
  int64_t initial, minimum, maximum, autosize;
  std::string_view doc;
};
extern const OptionTraits kOptions[kOptionCount];

// Presets of instruments and consumers that start-time options name. They keep the order of the text: of equally long patterns, the last
// wins.
inline constexpr uint32_t kMaxPresets = 128;
struct Preset {
  char pattern[129];
  bool is_consumer;
  bool enabled;
  Timing timed;
};

// Holds values before they are fixed into a segment.
// Threads: external lock.
struct Options {
  int64_t values[kOptionCount];
  Preset presets[kMaxPresets];
  uint32_t preset_count;
  char texts[kTextOptionCount][kTextOptionBytes];  // zero padded
  bool is_set[kOptionCount];                       // set explicitly, to whatever value

  Options() : Options(Unset()) { SetInitial(); }
  // Makes an object of zeros, for static storage. REQUIRES: SetInitial() comes before any use.
  struct Unset {};
  constexpr explicit Options(Unset) : values{}, presets{}, preset_count(0), texts{}, is_set{} {}
  void SetInitial();
  int64_t Get(OptionId id) const {
    const auto index = static_cast<uint32_t>(id);
    return values[index] == -1 ? kOptions[index].autosize : values[index];
  }
  std::string_view Get(TextOptionId id) const { return texts[static_cast<uint32_t>(id)]; }
  // Applies every good entry of "name=value,name=value". The status names the first bad one.
  Status Parse(std::string_view text);
  // Applies one entry. Nothing changes unless it is good.
  Status Set(std::string_view name, std::string_view value);
};

}  // namespace perfschema
