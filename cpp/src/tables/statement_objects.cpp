// Digests, histograms, stored programs and prepared statements.
#include "aggregate/statements.h"
#include "snapshot/digests.h"
#include "snapshot/events.h"
#include "snapshot/moment.h"
#include "tables/enums.h"
#include "tables/statement_columns.h"

namespace perfschema {
namespace {

using StatementSums = Sums<Kind::kStatement>;
std::optional<RuleType> ProgramTypeOf(ObjectType type) { return RuleTypeOf(type); }
Timestamp At(uint64_t micros) { return {static_cast<int64_t>(micros)}; }

// ---- Digests

struct Digest {
  DigestRow row;
  StatementSums sums;
  template <uint64_t kPerMille>
  uint64_t quantile() const {
    return row.histogram.Quantile(kPerMille);
  }
};

constexpr auto kDigestColumns = columns(
    col<&Digest::row, &DigestRow::schema>("SCHEMA_NAME", Unit::kNone, "Schema that the statements ran in; NULL if none was given."),
    col<&Digest::row, &DigestRow::digest>(
        "DIGEST", Unit::kNone, "SHA-256 of the statements without their literals; NULL for all digests beyond the capacity of the table."),
    col<&Digest::row, &DigestRow::text>("DIGEST_TEXT", Unit::kNone, "The statements without their literals, blanks and comments.")
        .across(Across::kSame),
    StatsColumns<StatementSums>::Get<&Digest::sums>(),
    col<&Digest::sums, &StatementSums::number<kFirstSeenWord>, &At>("FIRST_SEEN", Unit::kNone, "When such a statement first ended."),
    col<&Digest::sums, &StatementSums::number<kLastSeenWord>, &At>("LAST_SEEN", Unit::kNone, "When such a statement last ended."),
    col<&Digest::quantile<950>>("QUANTILE_95", Unit::kPicoseconds,
                                "95 % of the timed statements took no longer, by the histogram; 0 if none was timed.")
        .combines(Combine::kDerived),
    col<&Digest::quantile<990>>("QUANTILE_99", Unit::kPicoseconds,
                                "99 % of the timed statements took no longer, by the histogram; 0 if none was timed.")
        .combines(Combine::kDerived),
    col<&Digest::quantile<999>>("QUANTILE_999", Unit::kPicoseconds,
                                "99.9 % of the timed statements took no longer, by the histogram; 0 if none was timed.")
        .combines(Combine::kDerived),
    col<&Digest::row, &DigestRow::sample>("QUERY_SAMPLE_TEXT", Unit::kNone, "Sample statement: a recent slow one.")
        .across(Across::kSampled)
        .literals(),
    col<&Digest::row, &DigestRow::sample_seen, &At>("QUERY_SAMPLE_SEEN", Unit::kNone, "When the sample ended.").across(Across::kSampled),
    col<&Digest::row, &DigestRow::sample_wait>("QUERY_SAMPLE_TIMER_WAIT", Unit::kPicoseconds, "How long the sample took.")
        .across(Across::kSampled));

void ScanDigests(const Snapshot& snapshot, RowSink<Digest> out) {
  ForEachDigest(snapshot, [&](const DigestRow& row) {
    if (row.numbers[0] != 0) out({row, {row.numbers}});  // else it has not counted its first statement yet
  });
}

// ---- Histograms

struct Bucket {
  uint32_t number;
  uint64_t count, count_and_lower, total;
  uint64_t low() const { return kBucketLow[number]; }
  uint64_t high() const { return BucketHigh(number); }
  Fraction quantile() const { return {total == 0 ? 0 : static_cast<double>(count_and_lower) / static_cast<double>(total)}; }
};

template <auto... Path>
constexpr auto BucketColumns() {
  return columns(
      col<Path..., &Bucket::number>("BUCKET_NUMBER", Unit::kNone, "Number of the bucket, from 0."),
      col<Path..., &Bucket::low>("BUCKET_TIMER_LOW", Unit::kPicoseconds, "Shortest time that belongs to it.").across(Across::kSame),
      col<Path..., &Bucket::high>("BUCKET_TIMER_HIGH", Unit::kPicoseconds, "Times below this belong to it; the last bucket has no end.")
          .across(Across::kSame),
      col<Path..., &Bucket::count>("COUNT_BUCKET", Unit::kCount, "Statements with a time in this bucket."),
      col<Path..., &Bucket::count_and_lower>("COUNT_BUCKET_AND_LOWER", Unit::kCount,
                                             "Statements with a time in this bucket or a lower one."),
      col<Path..., &Bucket::quantile>("BUCKET_QUANTILE", Unit::kNone,
                                      "Fraction of all timed statements in this bucket or a lower one; 0 if there are none.")
          .combines(Combine::kDerived));
}

template <typename Use>
void ForEachBucket(const Histogram& histogram, Use use) {
  Bucket bucket{0, 0, 0, histogram.total};
  for (; bucket.number < kHistogramBuckets; ++bucket.number) {
    bucket.count = histogram.counts[bucket.number];
    bucket.count_and_lower += bucket.count;
    use(bucket);
  }
}

constexpr auto kBucketColumns = BucketColumns();
void ScanHistogram(const Snapshot& snapshot, RowSink<Bucket> out) {
  if (snapshot.ok()) ForEachBucket(StatementHistogram(snapshot), out);
}

struct DigestBucket {
  std::optional<Text<64>> schema, digest;
  Bucket bucket;
};
constexpr auto kDigestBucketColumns = columns(
    col<&DigestBucket::schema>("SCHEMA_NAME", Unit::kNone, "Schema that the statements ran in; NULL if none was given."),
    col<&DigestBucket::digest>("DIGEST", Unit::kNone, "Digest of the statements; joins events_statements_summary_by_digest.DIGEST."),
    BucketColumns<&DigestBucket::bucket>());
void ScanDigestHistograms(const Snapshot& snapshot, RowSink<DigestBucket> out) {
  const bool only_used = ReadMoment::OnlyUsed();
  ForEachDigest(snapshot, [&](const DigestRow& row) {
    if (row.numbers[0] == 0) return;
    ForEachBucket(row.histogram, [&](const Bucket& bucket) {
      if (bucket.count != 0 || !only_used) out({row.schema, row.digest, bucket});
    });
  });
}

// ---- Programs

struct Program {
  ProgramRow row;
  StatementSums sums;
};
constexpr auto kProgramColumns =
    columns(col<&Program::row, &ProgramRow::type, &ProgramTypeOf>("OBJECT_TYPE", Unit::kNone, "Kind of the program."),
            col<&Program::row, &ProgramRow::schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of the program."),
            col<&Program::row, &ProgramRow::name>("OBJECT_NAME", Unit::kNone, "Name of the program."),
            timer_stats<&Program::sums, &StatementSums::stat<0>>("WAIT", "calls"),
            col<&Program::sums, &StatementSums::stat<kInnerWord>, &Stat::count>("COUNT_STATEMENTS", Unit::kCount,
                                                                                "Statements that ran in the program."),
            col<&Program::sums, &StatementSums::stat<kInnerWord>, &Stat::sum_ps>("SUM_STATEMENTS_WAIT", Unit::kPicoseconds,
                                                                                 "Total time of these statements."),
            col<&Program::sums, &StatementSums::stat<kInnerWord>, &Stat::min_ps>("MIN_STATEMENTS_WAIT", Unit::kPicoseconds,
                                                                                 "Shortest of these statements."),
            col<&Program::sums, &StatementSums::stat<kInnerWord>, &Stat::avg_ps>("AVG_STATEMENTS_WAIT", Unit::kPicoseconds,
                                                                                 "Total time divided by the number of these statements."),
            col<&Program::sums, &StatementSums::stat<kInnerWord>, &Stat::max_ps>("MAX_STATEMENTS_WAIT", Unit::kPicoseconds,
                                                                                 "Longest of these statements."),
            statement_sums<&Program::sums>());
void ScanPrograms(const Snapshot& snapshot, RowSink<Program> out) {
  ForEachProgram(snapshot, [&](const ProgramRow& row) { out({row, {row.numbers}}); });
}

// ---- Prepared statements

struct Prepared {
  PreparedRow row;
  StatementSums sums;
  std::optional<RuleType> owner_type() const {
    return row.owner_type ? std::optional<RuleType>(RuleTypeOf(*row.owner_type)) : std::nullopt;
  }
  std::optional<Engine> engine() const { return row.engine; }
};
constexpr auto kPreparedColumns = columns(
    col<&Prepared::row, &PreparedRow::identity>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Identity of the prepared statement."),
    col<&Prepared::row, &PreparedRow::statement_id>("STATEMENT_ID", Unit::kNone, "Number that the program assigned.").across(Across::kSame),
    col<&Prepared::row, &PreparedRow::name>("STATEMENT_NAME", Unit::kNone, "Name that the program assigned; NULL if none.")
        .across(Across::kSame),
    col<&Prepared::row, &PreparedRow::text>("SQL_TEXT", Unit::kNone, "Text that was prepared.").across(Across::kSame).literals(),
    col<&Prepared::row, &PreparedRow::owner_thread_id>("OWNER_THREAD_ID", Unit::kNone, "Thread that prepared it; joins threads.THREAD_ID.")
        .across(Across::kSame),
    col<&Prepared::row, &PreparedRow::owner_event_id>("OWNER_EVENT_ID", Unit::kNone,
                                                      "EVENT_ID of the statement that prepared it; 0 if none is known.")
        .across(Across::kSame),
    col<&Prepared::owner_type>("OWNER_OBJECT_TYPE", Unit::kNone, "Kind of the stored program that prepared it; NULL for others.")
        .across(Across::kSame),
    col<&Prepared::row, &PreparedRow::owner_schema>("OWNER_OBJECT_SCHEMA", Unit::kNone, "Schema of that program.").across(Across::kSame),
    col<&Prepared::row, &PreparedRow::owner_name>("OWNER_OBJECT_NAME", Unit::kNone, "Name of that program.").across(Across::kSame),
    col<&Prepared::engine>("EXECUTION_ENGINE", Unit::kNone, "Engine that executes it.").across(Across::kSame),
    col<&Prepared::row, &PreparedRow::prepare>("TIMER_PREPARE", Unit::kPicoseconds, "Time that it took to prepare it.")
        .across(Across::kSame),
    col<&Prepared::row, &PreparedRow::reprepared>("COUNT_REPREPARE", Unit::kCount, "Number of times that it was prepared again."),
    col<&Prepared::sums, &StatementSums::stat<0>, &Stat::count>("COUNT_EXECUTE", Unit::kCount, "Number of times that it was executed."),
    col<&Prepared::sums, &StatementSums::stat<0>, &Stat::sum_ps>("SUM_TIMER_EXECUTE", Unit::kPicoseconds,
                                                                 "Total time of the timed executions."),
    col<&Prepared::sums, &StatementSums::stat<0>, &Stat::min_ps>("MIN_TIMER_EXECUTE", Unit::kPicoseconds,
                                                                 "Shortest of the timed executions."),
    col<&Prepared::sums, &StatementSums::stat<0>, &Stat::avg_ps>("AVG_TIMER_EXECUTE", Unit::kPicoseconds,
                                                                 "Total time divided by the number of executions."),
    col<&Prepared::sums, &StatementSums::stat<0>, &Stat::max_ps>("MAX_TIMER_EXECUTE", Unit::kPicoseconds,
                                                                 "Longest of the timed executions."),
    statement_sums<&Prepared::sums>());
void ScanPrepared(const Snapshot& snapshot, RowSink<Prepared> out) {
  ForEachPrepared(snapshot, [&](const PreparedRow& row) { out({row, {row.numbers}}); });
}

}  // namespace

constexpr TableDef tables::events_statements_summary_by_digest{
    .doc = "Groups of statements that differ only in literals, blanks and comments, by schema.",
    .ops = kSelect | kTruncate,
    .key = {"SCHEMA_NAME", "DIGEST"},
    .columns = columns_of<kDigestColumns>,
    .scan = scan<&ScanDigests>,
    .truncate = TruncateDigests,
};
static_assert(ok(tables::events_statements_summary_by_digest));

constexpr TableDef tables::events_statements_histogram_global{
    .doc = "Histogram of the times of all statements.",
    .ops = kSelect | kTruncate,
    .key = {"BUCKET_NUMBER"},
    .columns = columns_of<kBucketColumns>,
    .scan = scan<&ScanHistogram>,
    .truncate = TruncateHistogram,
};
static_assert(ok(tables::events_statements_histogram_global));

constexpr TableDef tables::events_statements_histogram_by_digest{
    .doc = "Histograms of the times of statements, by schema and digest.",
    .ops = kSelect | kTruncate,
    .key = {"SCHEMA_NAME", "DIGEST", "BUCKET_NUMBER"},
    .columns = columns_of<kDigestBucketColumns>,
    .scan = scan<&ScanDigestHistograms>,
    .truncate = TruncateDigestHistograms,
};
static_assert(ok(tables::events_statements_histogram_by_digest));

constexpr TableDef tables::events_statements_summary_by_program{
    .doc = "Calls of each stored program, and the statements in it.",
    .ops = kSelect | kTruncate,
    .key = {"OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"},
    .columns = columns_of<kProgramColumns>,
    .scan = scan<&ScanPrograms>,
    .truncate = TruncatePrograms,
};
static_assert(ok(tables::events_statements_summary_by_program));

constexpr TableDef tables::prepared_statements_instances{
    .doc = "The live prepared statements, and their executions.",
    .ops = kSelect | kTruncate,
    .key = {"OBJECT_INSTANCE_BEGIN"},
    .columns = columns_of<kPreparedColumns>,
    .scan = scan<&ScanPrepared>,
    .truncate = TruncatePrepared,
};
static_assert(ok(tables::prepared_statements_instances));

}  // namespace perfschema
