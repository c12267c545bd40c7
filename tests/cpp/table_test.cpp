// Tables as data: declarations, reads, and legal changes.
#include <algorithm>
#include <map>
#include <set>

#include "base/nearest.h"
#include "setup/setup.h"
#include "snapshot/events.h"
#include "snapshot/sums.h"
#include "synthetic_segment.h"
#include "table/registry.h"
#include "table/table_def.h"

namespace perfschema {
namespace {

const NamedTable& Table(std::string_view name) {
  const NamedTable* table = nullptr;
  const Status status = FindTable(name, &table);
  EXPECT_TRUE(status.ok()) << status.message();
  return *table;
}

size_t ColumnIndex(const NamedTable& table, std::string_view name) {
  for (size_t i = 0; i < table.def->columns.size(); ++i) {
    if (table.def->columns[i].name.view() == name) return i;
  }
  ADD_FAILURE() << "no column " << name;
  return 0;
}

std::vector<std::string> Texts(const ColumnData& column) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < column.texts.size(); ++i) texts.emplace_back(column.texts[i]);
  return texts;
}

// Returns cells as text, NULL as "NULL".
std::vector<std::vector<std::string>> Read(std::string_view name, std::vector<std::string_view> names, const SegmentView& view) {
  const NamedTable& table = Table(name);
  std::vector<size_t> chosen;
  for (const std::string_view column : names) chosen.push_back(ColumnIndex(table, column));
  TableData data;
  const Status status = ReadTable(table, view, chosen, &data);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(data.columns.size(), chosen.size());
  std::vector<std::vector<std::string>> rows(data.rows);
  for (size_t c = 0; c < chosen.size(); ++c) {
    const ColumnData& column = data.columns[c];
    const SqlType& type = table.def->columns[chosen[c]].type;
    for (size_t r = 0; r < data.rows; ++r) {
      if (!column.nulls.empty() && column.nulls.at(r) != 0)
        rows[r].push_back("NULL");
      else if (type.kind == ColumnKind::kEnum)
        rows[r].emplace_back(type.values[column.codes.at(r)]);
      else if (type.kind == ColumnKind::kText || type.kind == ColumnKind::kSet)
        rows[r].emplace_back(column.texts[column.codes.at(r)]);
      else
        rows[r].push_back(std::to_string(static_cast<int64_t>(column.words.at(r))));
    }
  }
  return rows;
}
using Rows = std::vector<std::vector<std::string>>;

// Checks that a table has columns of its declared shape; called for every table, in every state.
void CheckShape(const NamedTable& table, const TableData& data) {
  ASSERT_EQ(data.columns.size(), table.def->columns.size());
  for (size_t c = 0; c < table.def->columns.size(); ++c) {
    const SqlType& type = table.def->columns[c].type;
    const ColumnData& column = data.columns[c];
    SCOPED_TRACE(std::string(table.name) + "." + std::string(table.def->columns[c].name.view()));
    const bool is_coded = type.kind == ColumnKind::kText || type.kind == ColumnKind::kEnum || type.kind == ColumnKind::kSet;
    EXPECT_EQ(column.words.size(), is_coded ? 0 : data.rows);
    EXPECT_EQ(column.codes.size(), is_coded ? data.rows : 0);
    EXPECT_TRUE(column.nulls.empty() || column.nulls.size() == data.rows);
    EXPECT_TRUE(type.nullable || column.nulls.empty());
    const size_t limit = type.kind == ColumnKind::kEnum ? type.values.size() : column.texts.size();
    for (const uint32_t code : column.codes) EXPECT_LT(code, limit);
    const std::vector<std::string> texts = Texts(column);
    if (column.has_own_texts) {
      ASSERT_EQ(texts.size(), data.rows);
      for (size_t row = 0; row < data.rows; ++row) EXPECT_EQ(column.codes[row], row);
      continue;
    }
    EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
  }
}

TEST(Registry, tables_are_sorted_and_documented) {
  std::string_view last;
  for (const NamedTable& table : AllTables()) {
    EXPECT_LT(last, table.name);
    last = table.name;
    EXPECT_EQ(table.def->doc.back(), '.');
    EXPECT_NE(table.def->ops & kSelect, 0u);
    for (const Column& column : table.def->columns) {
      EXPECT_EQ(column.doc.view().back(), '.') << table.name << "." << column.name.view();
      EXPECT_EQ(column.type.text().empty(), false);
    }
  }
  EXPECT_GE(AllTables().size(), 17u);
}

TEST(Registry, unknown_table_names_the_nearest) {
  const NamedTable* table = nullptr;
  const Status status = FindTable("mutex_instance", &table);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("'mutex_instances'"), std::string::npos) << status.message();
  EXPECT_TRUE(FindTable("MUTEX_INSTANCES", &table).ok());
}

TEST(Registry, types_derive_from_members) {
  const NamedTable& table = Table("setup_instruments");
  const auto column = [&](std::string_view name) { return table.def->columns[ColumnIndex(table, name)]; };
  EXPECT_EQ(column("NAME").type.text(), "varchar(128)");
  EXPECT_FALSE(column("NAME").type.nullable);
  EXPECT_EQ(column("TIMED").type.text(), "enum('YES','NO','CONTENDED','SAMPLED','STATE')");
  EXPECT_TRUE(column("TIMED").type.nullable && column("TIMED").is_writable);
  EXPECT_EQ(column("PROPERTIES").type.text(), "set('singleton','progress','user','global_statistics','mutable','controlled_by_default')");
  EXPECT_EQ(column("VOLATILITY").type.text(), "int");
  EXPECT_EQ(column("DOCUMENTATION").type.text(), "longtext");
  EXPECT_EQ(table.def->columns.get().back().name.view(), "OVERHEAD_STEP");
  const NamedTable& files = Table("file_summary_by_instance");
  EXPECT_EQ(files.def->columns.size(), 26u);
  EXPECT_EQ(files.def->columns[ColumnIndex(files, "SUM_NUMBER_OF_BYTES_READ")].type.text(), "bigint");
  EXPECT_EQ(files.def->columns[ColumnIndex(files, "COUNT_STAR")].type.text(), "bigint unsigned");
}

TEST(Registry, ddl_says_everything) {
  const std::string ddl = TableDdl(Table("mutex_instances"));
  EXPECT_NE(ddl.find("CREATE TABLE `performance_schema`.`mutex_instances` ("), std::string::npos) << ddl;
  EXPECT_NE(ddl.find("LOCKED_BY_THREAD_ID"), std::string::npos);
  EXPECT_NE(ddl.find("PRIMARY KEY (`OBJECT_INSTANCE_BEGIN`)"), std::string::npos);
  for (const NamedTable& table : AllTables()) EXPECT_EQ(TableDdl(table).substr(0, 35), "CREATE TABLE `performance_schema`.`") << table.name;
}

TEST(ReadTable, every_table_has_its_shape_full_empty_and_off) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddClass(2, Family::kFile, "wait/io/file/a/f");
  shm.AddThread(1, 7);
  shm.AddClass(3, Family::kRwlock, "wait/synch/rwlock/a/r");
  shm.AddClass(4, Family::kCond, "wait/synch/cond/a/c");
  for (uint16_t i = 1; i <= 3; ++i) shm.AddMutex(i, i == 1 ? 1 : i + 1, i, 4);
  shm.AddHold(1, 1);
  shm.AddFile(1, 2, shm.AddName(1, "/f"), 0);
  shm.AddClass(5, Family::kSocket, "wait/io/socket/a/s");
  shm.AddFile(2, 5, shm.AddName(2, "127.0.0.1:80"), 0);
  shm.AddChunk(1, 2, 1, 7, 0);
  for (uint32_t i = 0; i < 9; ++i) shm.AddRecord(1, i, 1 + i, 100 * i, 10);
  for (const ArrayId id : {ArrayId::kAccounts, ArrayId::kUsers, ArrayId::kHosts}) shm.at<ShmPrincipal>(id, 1).is_live.store(1);
  shm.AddClass(6, Family::kThread, "thread/a/t");
  shm.at<ShmThread>(ArrayId::kThreads, 1).flags.store(kThreadForeground);
  shm.at<ShmActor>(ArrayId::kActors, 1).is_live.store(1);
  shm.AddTable(1, shm.AddName(5, std::string_view("shop\0orders", 11)), 0);
  shm.AddClass(6, Family::kThread, "thread/a/t");
  shm.at<ShmThread>(ArrayId::kThreads, 1).flags.fetch_or(kThreadForeground);
  shm.at<ShmActor>(ArrayId::kActors, 1).is_live.store(1);
  shm.at<ShmObjectRule>(ArrayId::kObjectRules, 1).type.store(static_cast<uint32_t>(ObjectType::kTable));
  shm.at<ShmInstrumentRule>(ArrayId::kInstrumentRules, 1).ordinal.store(1);
  shm.at<ShmRole>(ArrayId::kRoles, 1).threads.store(1);
  // Wide kinds take several indices.
  uint32_t next = 8;
  for (const Family family : {Family::kStage, Family::kStatement, Family::kTransaction, Family::kErrorNumber, Family::kStatus}) {
    shm.AddClass(next, family, TraitsOf(family).prefix);
    next += ColumnsOf(TraitsOf(family).kind);
  }
  // Returns true if this segment has no rows of the table: other kinds of records, objects of statements, and rows
  // that only the program can declare.
  const auto has_nothing = [](std::string_view name) {
    for (const std::string_view begin : {"blocked",
                                         "call_sites",
                                         "data_lock",
                                         "events_stages_current",
                                         "events_stages_history",
                                         "events_statements_current",
                                         "events_statements_history",
                                         "events_statements_summary_by_digest",
                                         "events_statements_summary_by_program",
                                         "events_statements_histogram_by_digest",
                                         "events_transactions_current",
                                         "events_transactions_history",
                                         "lock_reasons",
                                         "prepared_statements_instances",
                                         "running",
                                         "setup_meters",
                                         "setup_metrics",
                                         "setup_loggers",
                                         "session_",
                                         "user_variables_by_thread",
                                         "global_variable_attributes",
                                         "host_cache",
                                         "overhead_steps",
                                         "connection_control",
                                         "temporary_account_locks",
                                         "component_scheduler_tasks",
                                         "user_defined_functions",
                                         "error_log",
                                         "variables_by_thread",
                                         "memory_summary_by_"}) {
      if (name.starts_with(begin)) return true;
    }
    return false;
  };
  SyntheticSegment empty;
  for (const NamedTable& table : AllTables()) {
    TableData data;
    ASSERT_TRUE(ReadTable(table, shm.view(), {}, &data).ok());
    CheckShape(table, data);
    EXPECT_TRUE(data.rows != 0 || has_nothing(table.name)) << table.name;
    ASSERT_TRUE(ReadTable(table, empty.view(), {}, &data).ok());
    CheckShape(table, data);
    ASSERT_TRUE(ReadTable(table, SegmentView(), {}, &data).ok());
    CheckShape(table, data);
    EXPECT_TRUE((data.rows != 0) == table.def->available_when_disabled || has_nothing(table.name)) << table.name;
    // Keys are unique.
    std::vector<std::string_view> key(table.def->key.get().begin(), table.def->key.get().end());
    if (key.empty()) continue;
    const Rows rows = Read(table.name, key, shm.view());
    EXPECT_EQ(std::set<std::vector<std::string>>(rows.begin(), rows.end()).size(), rows.size()) << table.name;
  }
}

TEST(ReadTable, selects_columns_in_the_order_asked_for) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddMutex(1, 1, 77, 4).owner.store(9);
  shm.AddMutex(2, 1, 78, 4);
  EXPECT_EQ(Read("mutex_instances", {"LOCKED_BY_THREAD_ID", "NAME", "OBJECT_INSTANCE_BEGIN"}, shm.view()),
            (Rows{{"9", "wait/synch/mutex/a/m", "77"}, {"NULL", "wait/synch/mutex/a/m", "78"}}));
  TableData data;
  const size_t beyond[] = {99};
  EXPECT_EQ(ReadTable(Table("mutex_instances"), shm.view(), beyond, &data).code(), Code::kInvalidArgument);
}

TEST(ReadTable, texts_are_built_once) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddChunk(1, 2, 1, 7, 0);
  for (uint32_t i = 0; i < 32; ++i) shm.AddRecord(1, i, 1 + i, 100 * i, 10);
  const NamedTable& table = Table("events_waits_history_long");
  TableData data;
  ASSERT_TRUE(ReadTable(table, shm.view(), {}, &data).ok());
  EXPECT_EQ(data.rows, 32u);
  EXPECT_EQ(Texts(data.columns[ColumnIndex(table, "EVENT_NAME")]), std::vector<std::string>{"wait/synch/mutex/a/m"});
  EXPECT_EQ(Texts(data.columns[ColumnIndex(table, "OPERATION")]), std::vector<std::string>{"lock"});
}

TEST(ColumnBuilder, one_code_for_one_text_wherever_it_lies) {
  ColumnBuilder builder;
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back("text number " + std::to_string(i % 100));
  for (size_t begin = 0; begin < texts.size(); begin += 250) {
    ColumnBuilder::Batch batch = builder.Begin(250, ColumnKind::kText, true);
    for (size_t i = begin; i < begin + 250; ++i) batch.AddText(texts[i]);
    builder.End(batch);
  }
  ColumnBuilder::Batch batch = builder.Begin(1, ColumnKind::kText, true);
  batch.AddNullCode();
  builder.End(batch);
  const ColumnData data = builder.Finish();
  EXPECT_EQ(data.texts.size(), 100u);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(data.texts[data.codes[i]], texts[i]);
  EXPECT_EQ(data.nulls.size(), 1001u);
  EXPECT_EQ(data.nulls[1000], 1);
}

TEST(ColumnBuilder, a_key_has_a_text_for_each_row) {
  ColumnBuilder builder;
  builder.Expect(3, nullptr);  // more come
  const std::vector<std::string> keys{"/a", "", "/b", "/a", std::string(5000, 'x'), "/c"};
  for (size_t begin = 0; begin < keys.size(); begin += 2) {
    ColumnBuilder::Batch batch = builder.Begin(2, ColumnKind::kText, false);
    for (size_t i = begin; i < begin + 2; ++i) batch.AddOwnText(keys[i]);
    builder.End(batch);
  }
  const ColumnData data = builder.Finish();
  EXPECT_TRUE(data.has_own_texts);
  EXPECT_EQ(Texts(data), keys);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(data.codes[i], i);
}

TEST(ReadTable, performance_timers_has_six_rows) {
  SyntheticSegment shm;
  const Rows rows = Read("performance_timers", {"TIMER_NAME", "TIMER_FREQUENCY"}, shm.view());
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0][0], "CYCLE");
  EXPECT_EQ(rows[5][0], "THREAD_CPU");
  EXPECT_EQ(rows[1][1], "1000000000");
}

TEST(ReadTable, variables_are_shown_as_users_write_them) {
  SyntheticSegment shm("performance_schema_events_waits_history_size=17");
  std::map<std::string, std::string> values;
  for (const auto& row : Read("global_variables", {"VARIABLE_NAME", "VARIABLE_VALUE"}, shm.view())) values[row[0]] = row[1];
  EXPECT_EQ(values["performance_schema"], "ON");
  EXPECT_EQ(values["performance_schema_events_waits_history_size"], "17");
  EXPECT_EQ(values.size(), kOptionCount + kTextOptionCount);
  values.clear();
  for (const auto& row : Read("global_status", {"VARIABLE_NAME", "VARIABLE_VALUE"}, shm.view())) values[row[0]] = row[1];
  EXPECT_EQ(values["Performance_schema_locker_lost"], "0");
  EXPECT_EQ(values["Performance_schema_status_reason"], "NULL");
}

// ---- The own process
// ------------------------------------------------------------------------------------------------------------------

class OwnProcess : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("PFS_SEGMENT", "private", 1);
    uint32_t key = 0;
    ASSERT_TRUE(RegisterInstrumentByName(Family::kMutex, "table_test/first", "One.", &key).ok());
    ASSERT_TRUE(RegisterInstrumentByName(Family::kMutex, "table_test/second", "", &key).ok());
    ASSERT_TRUE(RegisterInstrumentByName(Family::kFile, "table_test/data", "", &key).ok());
  }
  Status Update(std::string_view table, std::vector<Condition> where, std::vector<Assignment> set) {
    return UpdateTable(Table(table), where, set, &rows);
  }
  std::string Enabled(const char* name) {
    for (const auto& row : Read("setup_instruments", {"NAME", "ENABLED", "TIMED"}, OwnSegment())) {
      if (row[0] == name) return row[1] + "/" + row[2];
    }
    return "?";
  }
  uint64_t rows = 99;
};
constexpr char kFirst[] = "wait/synch/mutex/table_test/first", kSecond[] = "wait/synch/mutex/table_test/second";

TEST_F(OwnProcess, setup_instruments_is_updated_by_pattern) {
  EXPECT_EQ(Enabled(kFirst), "YES/YES");
  EXPECT_TRUE(Update("setup_instruments", {{"name", "wait/synch/mutex/table_test/%", true}}, {{"enabled", "no"}}).ok());
  EXPECT_EQ(rows, 2u);
  EXPECT_EQ(Enabled(kFirst), "NO/YES");
  EXPECT_TRUE(Update("setup_instruments", {{"NAME", kFirst, false}, {"ENABLED", "NO", false}}, {{"ENABLED", "YES"}, {"TIMED", "NO"}}).ok());
  EXPECT_EQ(rows, 1u);
  EXPECT_EQ(Enabled(kFirst), "YES/NO");
  EXPECT_EQ(Enabled(kSecond), "NO/YES");
  EXPECT_TRUE(Update("setup_instruments", {{"NAME", "nothing", false}}, {{"ENABLED", "YES"}}).ok());
  EXPECT_EQ(rows, 0u);
  EXPECT_TRUE(Update("setup_instruments", {}, {{"ENABLED", "YES"}, {"TIMED", "YES"}}).ok());
  EXPECT_EQ(rows, Read("setup_instruments", {"NAME"}, OwnSegment()).size());
}

TEST_F(OwnProcess, bad_updates_change_nothing_and_say_what_is_legal) {
  struct Case {
    const char* table;
    std::vector<Condition> where;
    std::vector<Assignment> set;
    Code code;
    const char* says;
  };
  const Case cases[] = {
      {"setup_consumers",
       {},
       {{"ENABLED", "maybe"}},
       Code::kInvalidArgument,
       "column ENABLED of setup_consumers takes YES or NO, not 'maybe'"},
      {"setup_consumers", {}, {{"ENABLED", {}}}, Code::kInvalidArgument, "not NULL"},
      {"setup_consumers", {}, {{"NAME", "x"}}, Code::kNotAllowed, "these can: ENABLED"},
      {"setup_consumers", {}, {{"ENABLE", "NO"}}, Code::kNotFound, "the nearest is 'ENABLED'"},
      {"setup_consumers", {{"NAMES", "x", false}}, {{"ENABLED", "NO"}}, Code::kNotFound, "the nearest is 'NAME'"},
      {"setup_consumers", {}, {}, Code::kInvalidArgument, "sets no column"},
      {"setup_consumers", {}, {{"ENABLED", "NO"}, {"enabled", "YES"}}, Code::kInvalidArgument, "twice"},
      {"setup_instruments", {{"ENABLED", "perhaps", false}}, {{"ENABLED", "NO"}}, Code::kInvalidArgument, "takes YES or NO"},
      {"setup_instruments",
       {},
       {{"ENABLED", "NO"}, {"TIMED", {}}},
       Code::kInvalidArgument,
       "takes YES, NO, CONTENDED, SAMPLED or STATE, not NULL"},
      {"setup_instruments", {}, {{"ENABLED", "NO"}, {"FLAGS", "controlled"}}, Code::kNotAllowed, "memory instruments only"},
      {"setup_timers", {}, {{"TIMER_NAME", "CYCLES"}}, Code::kInvalidArgument, "the nearest is 'CYCLE'"},
      {"mutex_instances", {}, {{"NAME", "x"}}, Code::kNotAllowed, "it allows SELECT"},
  };
  for (const Case& one : cases) {
    const Status status = Update(one.table, one.where, one.set);
    EXPECT_EQ(status.code(), one.code) << one.says;
    EXPECT_NE(status.message().find(one.says), std::string::npos) << status.message() << "\nshould say: " << one.says;
    EXPECT_EQ(rows, 0u);
  }
  EXPECT_EQ(Enabled(kFirst), "YES/YES");
  for (const auto& row : Read("setup_consumers", {"NAME", "ENABLED"}, OwnSegment()))
    EXPECT_EQ(row[1], row[0] == "events_statements_cpu" || row[0] == "lock_holds" ? "NO" : "YES");
}

TEST_F(OwnProcess, consumers_and_timers_are_updated) {
  EXPECT_TRUE(Update("setup_consumers", {{"NAME", "events_waits_%", true}}, {{"ENABLED", "NO"}}).ok());
  EXPECT_EQ(rows, 3u);
  EXPECT_TRUE(Update("setup_consumers", {}, {{"ENABLED", "YES"}}).ok());
  EXPECT_EQ(rows, kConsumerCount);
  EXPECT_TRUE(Update("setup_timers", {{"NAME", "wait", false}}, {{"TIMER_NAME", "MICROSECOND"}}).ok());
  EXPECT_EQ(rows, 1u);
  const Rows timers = Read("setup_timers", {"NAME", "TIMER_NAME"}, OwnSegment());
  ASSERT_EQ(timers.size(), 5u);
  EXPECT_EQ(timers[1], (std::vector<std::string>{"wait", "MICROSECOND"}));
  EXPECT_TRUE(Update("setup_timers", {{"NAME", "wait", false}}, {{"TIMER_NAME", "CYCLE"}}).ok());
}

TEST_F(OwnProcess, truncate_is_allowed_where_declared) {
  for (const NamedTable& table : AllTables()) {
    const Status status = TruncateTable(table);
    if ((table.def->ops & kTruncate) != 0) {
      EXPECT_TRUE(status.ok()) << table.name;
    } else {
      EXPECT_EQ(status.code(), Code::kNotAllowed) << table.name;
      EXPECT_NE(status.message().find("it allows SELECT"), std::string::npos);
    }
  }
}

TEST(Nearest, takes_the_fewest_edits) {
  const std::vector<std::string_view> names{"ENABLED", "TIMED", "NAME", "mutex_instances"};
  const auto same = [](std::string_view name) { return name; };
  EXPECT_EQ(Nearest("mutex", names, same), "mutex_instances");
  EXPECT_EQ(Nearest("enabld", names, same), "ENABLED");
  EXPECT_EQ(Nearest("tmed", names, same), "TIMED");
  EXPECT_EQ(Nearest("enable", names, same), "ENABLED");
  EXPECT_EQ(Nearest("tim", names, same), "TIMED");
  EXPECT_EQ(NearestHint("tmed", names, same), ": the nearest is 'TIMED'");
}

TEST(Nearest, no_name_is_better_than_a_random_one) {
  const std::vector<std::string_view> names{"ENABLED", "TIMED", "NAME"};
  const auto same = [](std::string_view name) { return name; };
  for (const std::string& typed : {std::string(100000, 'x'), std::string("processor"), std::string("x"), std::string()}) {
    EXPECT_EQ(Nearest(typed, names, same), "") << typed.substr(0, 20);
    EXPECT_EQ(NearestHint(typed, names, same), "") << typed.substr(0, 20);
  }
}

// ok(), which every declaration is built with, finds a mistake in a declaration.
struct BadRow {
  uint64_t a;
  YesNo b;
};
void ScanBad(const Snapshot&, RowSink<BadRow>) {}
Status UpdateBad(const BadRow&, const BadRow&) { return {}; }
constexpr auto kGood = columns(col<&BadRow::a>("A", Unit::kNone, "A."), col<&BadRow::b>("B", Unit::kNone, "B."));
constexpr auto kTwice = columns(col<&BadRow::a>("A", Unit::kNone, "A."), col<&BadRow::b>("A", Unit::kNone, "B."));
constexpr auto kLower = columns(col<&BadRow::a>("a", Unit::kNone, "A."));
constexpr auto kNoPeriod = columns(col<&BadRow::a>("A", Unit::kNone, "A"));
constexpr auto kWritable = columns(col<&BadRow::b>("B", Unit::kNone, "B.").writable());
constexpr auto kOtherRow = columns(col<&WaitRow::event, &EventRow::event_id>("A", Unit::kNone, "A."));
static_assert(ok(TableDef{.doc = "D.", .columns = columns_of<kGood>, .scan = scan<&ScanBad>}));
static_assert(!ok(TableDef{.doc = "D", .columns = columns_of<kGood>, .scan = scan<&ScanBad>}));
static_assert(!ok(TableDef{.doc = "D.", .columns = columns_of<kGood>}));
static_assert(!ok(TableDef{.doc = "D.", .columns = columns_of<kTwice>, .scan = scan<&ScanBad>}));
static_assert(!ok(TableDef{.doc = "D.", .columns = columns_of<kLower>, .scan = scan<&ScanBad>}));
static_assert(!ok(TableDef{.doc = "D.", .columns = columns_of<kNoPeriod>, .scan = scan<&ScanBad>}));
static_assert(!ok(TableDef{.doc = "D.", .columns = columns_of<kWritable>, .scan = scan<&ScanBad>}));
static_assert(ok(TableDef{
    .doc = "D.", .ops = kSelect | kUpdate, .columns = columns_of<kWritable>, .scan = scan<&ScanBad>, .update = update<&UpdateBad>}));
static_assert(!ok(TableDef{
    .doc = "D.", .ops = kSelect | kUpdate, .columns = columns_of<kGood>, .scan = scan<&ScanBad>, .update = update<&UpdateBad>}));
static_assert(!ok(TableDef{.doc = "D.", .ops = kSelect | kTruncate, .columns = columns_of<kGood>, .scan = scan<&ScanBad>}));
static_assert(!ok(TableDef{.doc = "D.", .key = {"C"}, .columns = columns_of<kGood>, .scan = scan<&ScanBad>}));
static_assert(!ok(TableDef{.doc = "D.", .columns = columns_of<kOtherRow>, .scan = scan<&ScanBad>}));

}  // namespace
}  // namespace perfschema
