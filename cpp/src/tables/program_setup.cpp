// setup_meters, setup_metrics, setup_loggers; tasks and functions of the program.
#include "record/declared/program.h"
#include "snapshot/program.h"
#include "tables/tables.h"

namespace perfschema {
namespace {
enum class MetricType : uint8_t {};
enum class MetricNumber : uint8_t {};
enum class LogLevel : uint8_t {};

template <typename E>
E Code(uint64_t number) {
  return static_cast<E>(std::min<uint64_t>(number, std::size(EnumNames<E>::kValues) - 1));
}
}  // namespace

template <>
struct EnumNames<MetricType> {
  static constexpr std::string_view kValues[] = {"ASYNC COUNTER", "ASYNC UPDOWN COUNTER", "ASYNC GAUGE COUNTER"};
  static_assert(std::size(kValues) == kMetricTypeCount);
};
template <>
struct EnumNames<MetricNumber> {
  static constexpr std::string_view kValues[] = {"INTEGER", "DOUBLE"};
};
template <>
struct EnumNames<LogLevel> {
  static constexpr std::string_view kValues[] = {"none", "error", "warn", "info", "debug"};
  static_assert(std::size(kValues) == kLogLevelCount);
};

namespace {

using Description = std::optional<Text<1023>>;

struct MeterRow {
  Text<63> name;
  MediumInt frequency;
  YesNo enabled;
  Description description;
};
constexpr auto kMeterColumns =
    columns(col<&MeterRow::name>("NAME", Unit::kNone, "Name of the meter."),
            col<&MeterRow::frequency>("FREQUENCY", Unit::kSeconds, "How often its metrics are to be read.").writable(),
            col<&MeterRow::enabled>("ENABLED", Unit::kNone, "Whether they are read.").writable(),
            col<&MeterRow::description>("DESCRIPTION", Unit::kNone, "Description from its registration."));
void ScanMeters(const Snapshot& snapshot, RowSink<MeterRow> out) {
  ForEachFact(snapshot, FactKind::kMeter, [&](const FactRow& row) {
    out({row.text(0), {static_cast<uint32_t>(row.setting >> 1) & 0xffffff}, YesIf((row.setting & 1) != 0), row.optional<Text<1023>>(1)});
  });
}
Status UpdateMeterRow(const MeterRow& before, const MeterRow& after) {
  return UpdateMeter(before.name.view(), after.frequency.value, after.enabled == YesNo::kYes);
}

struct MetricRow {
  Text<63> name, meter;
  MetricType type;
  MetricNumber number;
  std::optional<Text<63>> unit;
  Description description;
};
constexpr auto kMetricColumns =
    columns(col<&MetricRow::name>("NAME", Unit::kNone, "Name of the metric."),
            col<&MetricRow::meter>("METER", Unit::kNone, "Meter that it belongs to; joins setup_meters.NAME."),
            col<&MetricRow::type>("METRIC_TYPE", Unit::kNone, "Whether its values only grow, go up and down, or are momentary readings."),
            col<&MetricRow::number>("NUM_TYPE", Unit::kNone, "What its values are."),
            col<&MetricRow::unit>("UNIT", Unit::kNone, "Unit of its values."),
            col<&MetricRow::description>("DESCRIPTION", Unit::kNone, "Description from its registration."));
void ScanMetrics(const Snapshot& snapshot, RowSink<MetricRow> out) {
  ForEachFact(snapshot, FactKind::kMetric, [&](const FactRow& row) {
    out({row.text(0), row.text(1), Code<MetricType>(row.number(0)), Code<MetricNumber>(row.number(1)), row.optional<Text<63>>(2),
         row.optional<Text<1023>>(3)});
  });
}

struct LoggerRow {
  Text<128> name;
  LogLevel level;
  Description description;
};
constexpr auto kLoggerColumns =
    columns(col<&LoggerRow::name>("NAME", Unit::kNone, "Name of the logger."),
            col<&LoggerRow::level>("LEVEL", Unit::kNone, "Least important messages that it passes on.").writable(),
            col<&LoggerRow::description>("DESCRIPTION", Unit::kNone, "Description from its registration."));
void ScanLoggers(const Snapshot& snapshot, RowSink<LoggerRow> out) {
  ForEachFact(snapshot, FactKind::kLogger, [&](const FactRow& row) {
    out({row.text(0), Code<LogLevel>(row.setting), row.optional<Text<1023>>(1)});
  });
}
Status UpdateLoggerRow(const LoggerRow& before, const LoggerRow& after) {
  return UpdateLogger(before.name.view(), static_cast<uint32_t>(after.level));
}

struct TaskRow {
  Text<64> name;
  Text<16> status;
  Description comment;
  uint64_t interval_seconds, times_run, times_failed;
};
constexpr auto kTaskColumns =
    columns(col<&TaskRow::name>("NAME", Unit::kNone, "Name of the task.").across(Across::kLocal),
            col<&TaskRow::status>("STATUS", Unit::kNone, "RUNNING, or WAITING for its next run.").across(Across::kSame),
            col<&TaskRow::comment>("COMMENT", Unit::kNone, "Description from its registration.").across(Across::kSame),
            col<&TaskRow::interval_seconds>("INTERVAL_SECONDS", Unit::kSeconds, "How often it is to run.").across(Across::kSame),
            col<&TaskRow::times_run>("TIMES_RUN", Unit::kCount, "How often it has run.").combines(Combine::kSum),
            col<&TaskRow::times_failed>("TIMES_FAILED", Unit::kCount, "How often it has failed.").combines(Combine::kSum));
void ScanTasks(const Snapshot& snapshot, RowSink<TaskRow> out) {
  ForEachFact(snapshot, FactKind::kTask, [&](const FactRow& row) {
    out({row.text(0), row.number(3) != 0 ? "RUNNING" : "WAITING", row.optional<Text<1023>>(1), row.number(0), row.number(1),
         row.number(2)});
  });
}

struct FunctionRow {
  Text<64> name;
  Text<20> return_type, type;
  std::optional<Text<1024>> library;
  std::optional<int64_t> uses;
};
constexpr auto kFunctionColumns = columns(col<&FunctionRow::name>("UDF_NAME", Unit::kNone, "Name of the function."),
                                          col<&FunctionRow::return_type>("UDF_RETURN_TYPE", Unit::kNone, "Type of what it returns."),
                                          col<&FunctionRow::type>("UDF_TYPE", Unit::kNone, "Kind of function."),
                                          col<&FunctionRow::library>("UDF_LIBRARY", Unit::kNone, "Library that it comes from."),
                                          col<&FunctionRow::uses>("UDF_USAGE_COUNT", Unit::kCount, "Number of present users."));
void ScanFunctions(const Snapshot& snapshot, RowSink<FunctionRow> out) {
  ForEachFact(snapshot, FactKind::kFunction, [&](const FactRow& row) {
    out({row.text(0), row.text(1), row.text(2), row.optional<Text<1024>>(3), static_cast<int64_t>(row.number(0))});
  });
}

}  // namespace

constexpr TableDef tables::setup_meters{
    .doc = "Groups of metrics that the program registered, and how often they are read.",
    .ops = kSelect | kUpdate,
    .key = {"NAME"},
    .columns = columns_of<kMeterColumns>,
    .scan = scan<&ScanMeters>,
    .update = update<&UpdateMeterRow>,
};
static_assert(ok(tables::setup_meters));

constexpr TableDef tables::setup_metrics{
    .doc = "Metrics that the program registered.",
    .key = {"NAME"},
    .columns = columns_of<kMetricColumns>,
    .scan = scan<&ScanMetrics>,
};
static_assert(ok(tables::setup_metrics));

constexpr TableDef tables::setup_loggers{
    .doc = "Loggers that the program registered, and the messages that they pass on.",
    .ops = kSelect | kUpdate,
    .columns = columns_of<kLoggerColumns>,
    .scan = scan<&ScanLoggers>,
    .update = update<&UpdateLoggerRow>,
};
static_assert(ok(tables::setup_loggers));

constexpr TableDef tables::component_scheduler_tasks{
    .doc = "Tasks that the program runs periodically.",
    .columns = columns_of<kTaskColumns>,
    .scan = scan<&ScanTasks>,
};
static_assert(ok(tables::component_scheduler_tasks));

constexpr TableDef tables::user_defined_functions{
    .doc = "Functions that the program has loaded.",
    .key = {"UDF_NAME"},
    .columns = columns_of<kFunctionColumns>,
    .scan = scan<&ScanFunctions>,
};
static_assert(ok(tables::user_defined_functions));

}  // namespace perfschema
