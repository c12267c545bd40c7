#include "base/digest.h"
#include "base/traceparent.h"
#include "snapshot/digests.h"
#include "snapshot/event_reader.h"

namespace perfschema {

struct StatementEvent {
  static constexpr Kind kKind = Kind::kStatement;
  using Row = StatementRow;
  struct Extra {
    uint64_t counters[kStatementCounters];
    uint64_t controlled_memory, total_memory, statement_id;
    uint64_t bits, sqlstate, program;
    uint32_t error, program_type;
    uint64_t schema[8], message[16];
    Traceparent trace;
    std::string_view sql, tokens;
  };

  static bool Load(const Snapshot& snapshot, const ShmRecord& record, uint64_t, uint64_t, Extra* extra) {
    const auto& from = static_cast<const ShmStatementRecord&>(record);
    extra->controlled_memory = from.controlled_memory.load(kAcquire);
    extra->total_memory = from.total_memory.load(kAcquire);
    extra->statement_id = from.statement_id.load(kAcquire);
    const PoolView& pool = snapshot.pool(kKind);
    std::vector<char>& buffer = snapshot.buffer();
    uint64_t sql_bytes = 0, token_bytes = 0;
    const bool whole = snapshot.TryRead(from.seq, [&] {
      extra->error = from.error.load(kAcquire);
      extra->bits = from.bits.load(kAcquire);
      for (uint32_t i = 0; i < kStatementCounters; ++i) {
        extra->counters[i] = (extra->bits & CounterBit(i)) != 0 ? from.counters[i].load(kAcquire) : 0;
      }
      extra->program = from.program.load(kAcquire);
      extra->program_type = from.program_type.load(kAcquire);
      if ((extra->bits & kStatementHasSchema) != 0) LoadWords(from.schema, extra->schema);
      if ((extra->bits & kStatementHasDiagnostics) != 0) {
        extra->sqlstate = from.sqlstate.load(kAcquire);
        LoadWords(from.message, extra->message);
      }
      extra->trace.flags = static_cast<uint8_t>(from.trace_flags.load(kAcquire));
      CopyFromShared(extra->trace.ids, from.trace, Traceparent::kBytes);
      sql_bytes = from.sql_bytes.load(kAcquire);
      token_bytes = from.digest_bytes.load(kAcquire);
      const PoolView::Texts texts = pool.TextsOf(from, sql_bytes, token_bytes);
      // As far as they lie in their place: its words may be another event's by now.
      sql_bytes = std::min(sql_bytes, texts.capacity);
      const uint64_t sql_capacity = std::min(TextCapacity(sql_bytes), texts.capacity);
      token_bytes = std::min(token_bytes, texts.capacity - sql_capacity);
      buffer.resize(sql_bytes + token_bytes);
      CopyFromShared(buffer.data(), texts.first, sql_bytes);
      CopyFromShared(buffer.data() + sql_bytes, static_cast<const char*>(texts.first) + sql_capacity, token_bytes);
    });
    if (!whole) return false;
    const std::string_view kept = snapshot.Keep({buffer.data(), buffer.size()});
    extra->sql = kept.substr(0, sql_bytes);
    extra->tokens = kept.substr(sql_bytes, token_bytes);
    return true;
  }

  static bool IsNested(const EventHead& head) { return head.operation() != 0; }

  static void Emit(const Snapshot& snapshot, const EventHead& head, const Extra& extra, const std::function<void(const Row&)>& use) {
    const ClassRow* instrument = snapshot.ClassAt(head.class_index());
    if (instrument == nullptr) return;  // younger than this snapshot, or damaged
    StatementRow row{};
    FillRow(snapshot, head, *instrument, &row.event);
    std::copy(std::begin(extra.counters), std::end(extra.counters), row.counters);
    row.controlled_memory = extra.controlled_memory;
    row.total_memory = extra.total_memory;
    if (extra.statement_id != 0) row.statement_id = extra.statement_id;
    if ((extra.bits & kStatementHasText) != 0) row.sql_text = LongText(extra.sql);
    if (!extra.tokens.empty()) {
      DescribeTokens(snapshot, extra.tokens, &row.digest, &row.digest_text);
    }
    if ((extra.bits & kStatementHasSchema) != 0) {
      if (const auto schema = snapshot.KeepWords(extra.schema); !schema.empty()) row.schema = schema;
    }
    DescribeProgram(snapshot, extra.program_type, extra.program, &row.object_type, &row.object_schema, &row.object_name);
    if (const bool has_diagnostics = (extra.bits & kStatementHasDiagnostics) != 0; has_diagnostics || !head.is_open()) {
      row.error = static_cast<int32_t>(extra.error);
      row.sqlstate = "00000";
      if (has_diagnostics) {
        const char* const state = reinterpret_cast<const char*>(&extra.sqlstate);
        row.sqlstate = snapshot.Keep({state, strnlen(state, 5)});
        if (const auto message = snapshot.KeepWords(extra.message); !message.empty()) row.message = message;
      }
    }
    if ((extra.bits & kStatementHasTrace) != 0) {
      char text[Traceparent::kTextBytes];
      FormatTraceparent(extra.trace, text);
      row.traceparent = snapshot.Keep({text, sizeof text});
    }
    row.level = static_cast<int32_t>(head.operation());
    row.engine = (extra.bits & kStatementIsSecondary) != 0 ? Engine::kSecondary : Engine::kPrimary;
    use(row);
  }
};

void ForEachStatement(const Snapshot& snapshot, uint32_t view, const std::function<void(const StatementRow&)>& use, const Expect& expect) {
  EventReader<StatementEvent>(snapshot).ForEach(view, use, expect);
}

void ForEachTracedStatement(const Snapshot& snapshot, TraceCursor* cursor, const TraceUse& use) {
  EventReader<StatementEvent>(snapshot).ForEachTraced(cursor, use);
}

}  // namespace perfschema
