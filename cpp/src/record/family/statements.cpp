#include "record/family/statements.h"

#include <cstring>

#include "base/clock.h"
#include "base/digest.h"
#include "base/secrets.h"
#include "base/traceparent.h"
#include "record/family/diagnostics.h"
#include "record/family/digests.h"
#include "record/family/elsewhere.h"
#include "record/family/histograms.h"
#include "record/family/programs.h"
#include "record/family/text_buffers.h"
#include "record/probe/chunk_pool.h"

namespace perfschema {
namespace {

// Returns the statement's place in the thread's stack; nullptr: it is not recorded, or has left the stack.
OpenStatement* PlaceOf(const Statement& statement) {
  ThreadState& thread = *statement.thread;
  for (uint32_t i = thread.statement_depth; i-- > 0;) {
    if (thread.statements[i].serial == statement.serial) return &thread.statements[i];
  }
  return nullptr;
}

// Returns the statement's record, if it still has one.
ShmStatementRecord* RecordOf(const Statement& statement) {
  OpenStatement* const open = PlaceOf(statement);
  return open != nullptr && StillHas(open->record, open->begun_state) ? open->record : nullptr;
}

// Returns true if the statement is instrumented, and the calling thread began it.
bool IsMine(const Statement& statement) { return statement.thread != nullptr && statement.thread == t_locals.state; }

Nesting NestingOf(const ThreadState& thread) {
  const Nesting outer = RunningStatement(thread);
  // A transaction that is active and newer than the statement around it is the parent (semantics.md D3).
  if (thread.transaction.event_id > outer.event_id && StillHas(thread.transaction.record, thread.transaction.begun_state))
    return {thread.transaction.event_id, kNestingTransaction};
  return outer;
}

// Copies the text and its tokens into the statement's record.
void ShowText(const Statement& statement, ShmStatementRecord& record, const char* sql, const uint8_t* tokens) {
  uint32_t sql_bytes = statement.sql_bytes, digest_bytes = statement.digest_bytes;
  char* place = reinterpret_cast<char*>(&record + 1);
  const uint64_t record_bytes = g_runtime.pool(Kind::kStatement).record_bytes;
  if (HasLongTexts(sql_bytes, digest_bytes, record_bytes)) {
    if (char* const long_place = LongTextsOf(record); long_place != nullptr) {
      place = long_place;
    } else {  // the begin of the text is better than none
      CountLoss(Loss::kDigests);
      sql_bytes = static_cast<uint32_t>(CutText({sql, sql_bytes}, record_bytes - sizeof record).size());
      digest_bytes = 0;
    }
  }
  const CellWriter writer(record.seq);
  CopyToShared(place, sql, sql_bytes);
  CopyToShared(place + TextCapacity(sql_bytes), tokens, digest_bytes);
  record.sql_bytes.store(sql_bytes, kRelease);
  record.digest_bytes.store(digest_bytes, kRelease);
  record.bits.store(record.bits.load(kRelaxed) | kStatementHasText, kRelease);
}

// Replaces the text in the buffer if it has secrets. Returns whether it has any.
[[gnu::noinline, gnu::cold]] bool MaskSecrets(Statement& statement, std::string_view text, char* sql) {
  const size_t limit = g_runtime.text_sizes.sql_limit;
  const size_t bytes = CutTextWithoutSecrets(text, limit, sql);
  statement.sql_bytes = static_cast<uint32_t>(bytes != 0 ? bytes : CutText(text, limit, sql));
  if (bytes == 0 && (limit != 0 || !HasSecret(text))) return false;
  NoteSecret(statement);
  return true;
}

// Reads the tokens of a text that the cache does not have. `entry`: where it may keep them, or nullptr.
[[gnu::noinline]] void ReadTokens(Statement& statement, std::string_view text, char* sql, std::span<uint8_t> tokens, TokenCache& cache,
                                  TokenCache::Entry* entry) {
  // The cache has no text with secrets, so a text that is there needs no look at it.
  bool has_secrets = false;
  std::string_view read = text;
  if (MayHaveSecret(text)) [[unlikely]] {
    has_secrets = MaskSecrets(statement, text, sql);
    if (has_secrets && TokensKeepLiterals()) read = {sql, statement.sql_bytes};
  }
  const auto dialect = static_cast<Dialect>(statement.flags >> kFlagDialectShift);
  statement.digest_bytes = static_cast<uint32_t>(TokensForDigest(read, dialect, tokens));
  statement.digest_key = DigestKey({tokens.data(), statement.digest_bytes});
  if (entry != nullptr && (has_secrets || !cache.Keep(*entry, text, {tokens.data(), statement.digest_bytes}, statement.digest_key)))
    entry = nullptr;
  statement.entry = entry;
  if (entry != nullptr) statement.entry_version = entry->version;
}

void SetTokens(Statement& statement, std::string_view text, char* sql, std::span<uint8_t> tokens) {
  TokenCache& cache = TokenCacheOf(*statement.thread);
  TokenCache::Entry* const entry = cache.PlaceOf(text, statement.flags >> kFlagDialectShift);
  if (entry == nullptr || !entry->Holds(text)) return ReadTokens(statement, text, sql, tokens, cache, entry);
  cache.CountHit();
  std::memcpy(tokens.data(), entry->tokens, entry->token_bytes);
  statement.digest_bytes = entry->token_bytes;
  statement.digest_key = entry->key;
  statement.entry = entry;
  statement.entry_version = entry->version;
}

// Asks for the lines of a record that most statements write. The pool is so large that they are in no cache.
void PrefetchRecord(const ShmStatementRecord* record, const char* next) {
  const auto ask = [](const char* at, size_t lines) {
    for (size_t i = 0; i < lines; ++i) __builtin_prefetch(at + 64 * i, 1);
  };
  ask(reinterpret_cast<const char*>(record), 2);
  ask(reinterpret_cast<const char*>(record + 1), 6);
  ask(next, 2);
}

// Takes one statement out of the stack. Those that began after it go on.
void Remove(ThreadState& thread, uint32_t at) {
  --thread.statement_depth;
  for (uint32_t i = at; i < thread.statement_depth; ++i) {
    thread.statements[i] = thread.statements[i + 1];
    thread.statements[i].is_overtaken = true;
  }
}

// Drops a statement. The cold lock lets another thread that ends it finish: the record then may go to another event.
[[gnu::noinline, gnu::cold]] void DropStatement(ThreadState& thread, uint32_t at) {
  const OpenStatement& open = thread.statements[at];
  const int error = errno;
  {
    const ColdLock lock;
    DropRecord(open.record, open.begun_state);
    if (!HasEnded(thread, open)) CountLoss(Loss::kLockers);
  }
  errno = error;
  Remove(thread, at);
}

// Drops the abandoned statements from `first` on, as is_left() tells: they are counted as lost, and not shown any
// more.
template <typename IsLeft>
void DropLeft(ThreadState& thread, uint32_t first, IsLeft is_left) {
  for (uint32_t i = thread.statement_depth; i-- > first;) {
    if (is_left(thread.statements[i])) DropStatement(thread, i);
  }
}

// Takes those out of the stack that other threads have ended.
void ForgetEndedStatements(ThreadState& thread) {
  for (uint32_t i = thread.statement_depth; i-- > 0;) {
    const OpenStatement& open = thread.statements[i];
    if (!HasEnded(thread, open)) continue;
    if (open.record != nullptr) KeepChunkOf(thread, Kind::kStatement, open.record);
    Remove(thread, i);
  }
}

// Makes space for a new statement: drops statements that a longjmp or an exception has left. A statement whose memory
// the new one reuses can never be ended. If there is one, or the stack is full, statements whose memory lies below
// `frame` are dropped, too: that memory has been released. If the stack is still full, the oldest overtaken statement
// is dropped: memory outside the stack does not tell whether it was left.
void DropAbandoned(ThreadState& thread, const void* place, const void* frame) {
  ForgetEndedStatements(thread);
  const auto is_full = [&] { return thread.statement_depth >= g_runtime.statement_stack; };
  const OpenStatement* const first = thread.statements;
  const OpenStatement* end = first + thread.statement_depth;
  const bool was_full = is_full(), is_taken = std::any_of(first, end, [&](const OpenStatement&open) { return open.place == place; });
  if (!was_full && !is_taken) return;
  DropLeft(thread, 0, [&](const OpenStatement& open) { return open.place == place || (open.is_on_stack && WasLeft(open.place, frame)); });
  if (!is_full()) return;
  end = first + thread.statement_depth;
  const OpenStatement* const oldest = std::find_if(first, end, [](const OpenStatement& open) { return open.is_overtaken; });
  if (oldest != end) DropLeft(thread, 0, [serial = oldest->serial](const OpenStatement& open) { return open.serial == serial; });
}

// Takes a statement off the stack, with the statements inside it that were left in frames below `frame`.
void TakeFromStack(ThreadState& thread, const OpenStatement* place, const void* frame) {
  const auto at = static_cast<uint32_t>(place - thread.statements);
  if (at + 1 != thread.statement_depth)
    DropLeft(thread, at + 1, [&](const OpenStatement& inner) { return inner.is_on_stack && WasLeft(inner.place, frame); });
  Remove(thread, at);
}

// Does what FreeBuffer() does inside another statement.
[[gnu::noinline]] uint32_t FreeBufferBeside(const ThreadState& thread) {
  uint32_t buffer = thread.statement_depth;
  const OpenStatement* const first = thread.statements;
  const OpenStatement* const end = first + buffer;
  while (std::any_of(first, end, [&](const OpenStatement& open) { return open.buffer == buffer; })) {
    buffer = (buffer + 1) % g_runtime.statement_stack;
  }
  return buffer;
}

// Returns a buffer that no running statement uses. REQUIRES: the stack is not full.
PFS_ALWAYS_INLINE uint32_t FreeBuffer(const ThreadState& thread) {
  return __builtin_expect(thread.statement_depth == 0, 1) ? 0 : FreeBufferBeside(thread);
}

PFS_ALWAYS_INLINE void CountEverywhere(Statement& statement, const StatementNumbers& numbers) {
  ThreadState& thread = *statement.thread;
  AddToSums<Kind::kStatement>(thread, statement.class_index, statement.flags, [&](ShmCell& cell) { AddStatement(cell, numbers); });
  if (numbers.time.timed) CountInHistogram(thread, numbers.bucket);
  if (statement.program != nullptr) CountInProgram(thread, *statement.program, statement.program_version, numbers);
  if (statement.prepared != nullptr) CountExecution(thread, *statement.prepared, statement.prepared_version, numbers);
  if (statement.digest_bytes == 0) return;
  // The text in the buffer may be another's. Statements that are not recorded share a buffer, and so do statements of
  // different tasks; or the enclosing statement may have ended before.
  if (BufferOwner(thread, statement.buffer) != statement.serial) return CountLoss(Loss::kDigests);
  const char* const sql = SqlBuffer(thread, statement.buffer);
  const bool is_in_entry = statement.entry != nullptr && statement.entry->version == statement.entry_version;
  const DigestedText text{statement.schema,     statement.schema_bytes,     {TokenBuffer(thread, statement.buffer), statement.digest_bytes},
                          statement.digest_key, {sql, statement.sql_bytes}, is_in_entry ? statement.entry : nullptr};
  CountDigest(thread, text, numbers, WallClockMicros());
}

}  // namespace

void BeginStatement(Statement& statement, uint32_t class_index, ShmStoredProgram* program, const char* file, uint32_t line) {
  statement.thread = nullptr;
  ThreadState* const thread = CurrentThread();
  const uint32_t flags = thread == nullptr ? 0 : FlagsInThread(*thread, class_index);
  if (flags == 0) return;
  const NestedProbe probe(*thread);
  if (!probe) return;
  if (thread->statement_depth != 0) DropAbandoned(*thread, &statement, __builtin_dwarf_cfa());
  const Nesting nesting = NestingOf(*thread);
  const uint32_t level = thread->statement_depth;
  const bool is_kept = level < g_runtime.statement_stack;
  BegunRecord begun;
  if (is_kept) {
    begun = BeginRecord<Kind::kStatement>(*thread, class_index, flags, nesting, thread->sources.Find(file, line), 0, std::min(level, 255u));
  } else {
    CountLoss(Loss::kNestedStatements);
  }
  auto* const record = static_cast<ShmStatementRecord*>(begun.record);
  if (record != nullptr) {
    PrefetchRecord(record, reinterpret_cast<const char*>(thread->CursorOf(Kind::kStatement).next));
    const CellWriter writer(record->seq);
    for (HalfWord* word : {&record->error, &record->sql_bytes, &record->digest_bytes}) word->store(0, kRelease);
    ClearShared<6>(&record->bits);
    if (program != nullptr) {
      record->program.store(uint64_t{program->name.load(kRelaxed)} << 32 | program->name_version.load(kRelaxed), kRelease);
      record->program_type.store(program->type.load(kRelaxed), kRelease);
    }
  }
  statement.thread = thread;
  statement.cpu_start = 0;
  statement.digest_key = 0;
  statement.digest_bytes = statement.sql_bytes = 0;
  statement.set = 0;
  statement.schema_bytes = 0;
  statement.has_secret = statement.is_secondary = false;
  statement.entry = nullptr;
  statement.program_version = statement.prepared_version = 0;
  statement.prepared = nullptr;
  statement.serial = ++thread->serials;
  statement.record = record;
  statement.begun_state = begun.begun_state;
  statement.flags = flags;
  statement.class_index = class_index;
  statement.buffer = is_kept ? FreeBuffer(*thread) : g_runtime.statement_stack;
  statement.program = program;
  if (program != nullptr) statement.program_version = program->version.load(kRelaxed);
  if (is_kept) {
    thread->statements[level] = {
        record, begun.begun_state, begun.event_id, statement.serial, &statement, statement.buffer, LiesBelow(StackMark(), &statement),
        false};
    thread->statement_depth = level + 1;
  }
  statement.memory_before = MemoryInUse(*thread);
  statement.outer_peaks = LowerMemoryPeaks(*thread);
  SetParentOfWaits(*thread);
  if ((flags & kFlagCpu) != 0) statement.cpu_start = ReadClockNanos(CLOCK_THREAD_CPUTIME_ID);
  statement.start_ticks = TicksOf(flags);
  ShowRecord(begun, statement.start_ticks);
}

void EndStatement(Statement& statement) {
  if (statement.thread == nullptr) return;
  if (!IsMine(statement)) return EndOfAnother(statement);
  ThreadState& thread = *statement.thread;
  const Measured measured = MeasuredUntil(statement.flags, statement.start_ticks, TicksOf(statement.flags));
  if ((statement.flags & kFlagCpu) != 0) {
    SetStatementCounter(statement, StatementCounter::kCpuTime, (ReadClockNanos(CLOCK_THREAD_CPUTIME_ID) - statement.cpu_start) * 1000);
  }
  const NestedProbe probe(thread);
  if (!probe) return;
  const MemoryPeaks most = RaiseMemoryPeaks(thread, statement.outer_peaks);
  const auto more = [](uint64_t peak, uint64_t before) { return peak > before ? peak - before : 0; };
  const StatementNumbers numbers{measured,
                                 measured.timed ? BucketOf(measured.wait_ps) : 0,
                                 statement.set,
                                 statement.counters,
                                 more(most.controlled, statement.memory_before.controlled),
                                 more(most.total, statement.memory_before.total),
                                 statement.is_secondary ? 1u : 0u};
  // The record comes first: a handler that leaves here with a longjmp must not leave an open record outside the
  // stack.
  if (const OpenStatement* const open = PlaceOf(statement); open != nullptr) {
    if (statement.flags == 0) {
      DropRecord(open->record, open->begun_state);
    } else if (StillHas(open->record, open->begun_state)) {
      open->record->controlled_memory.store(numbers.controlled_memory, kRelease);
      open->record->total_memory.store(numbers.total_memory, kRelease);
      EndRecord<Kind::kStatement>(thread, open->record, open->begun_state, measured.end_ticks);
    }
    TakeFromStack(thread, open, __builtin_dwarf_cfa());
  }
  SetParentOfWaits(thread);
  if (statement.flags != 0) CountEverywhere(statement, numbers);
  statement.thread = nullptr;
}

void CountStatement(Statement& statement, const StatementNumbers& numbers) { CountEverywhere(statement, numbers); }

void RefineStatement(Statement& statement, uint32_t class_index) {
  if (!IsMine(statement) || statement.flags == 0) return;
  const uint32_t flags = FlagsInThread(*statement.thread, class_index);
  OpenStatement* const open = PlaceOf(statement);
  ShmStatementRecord* const record = RecordOf(statement);
  if (flags == 0) {
    if (record != nullptr) DropRecord(record, open->begun_state);
    if (open != nullptr) open->event_id = 0;  // no event is nested in it any more
    statement.flags = 0;
    return SetParentOfWaits(*statement.thread);
  }
  statement.class_index = class_index;
  // It goes on with the settings that it began with, but an untimed instrument stops its timing.
  if ((flags & kFlagTimed) == 0) statement.flags &= ~kFlagTimed;
  if ((flags & kFlagDialectMask) != 0) statement.flags = (statement.flags & ~kFlagDialectMask) | (flags & kFlagDialectMask);
  if (record == nullptr) return;
  record->what.store((record->what.load(kRelaxed) & ~uint64_t{0xffff}) | class_index, kRelease);
  if ((flags & kFlagTimed) == 0) statement.begun_state = open->begun_state &= ~uint64_t{kFlagTimed};
  record->state.store(open->begun_state, kRelease);
}

void SetStatementSchema(Statement& statement, std::string_view schema) {
  if (!IsMine(statement)) return;
  std::memset(statement.schema, 0, sizeof statement.schema);
  schema = CutText(schema.substr(0, schema.find('\0')), sizeof statement.schema);
  schema.copy(statement.schema, sizeof statement.schema);
  statement.schema_bytes = static_cast<uint16_t>(schema.size());
  if (ShmStatementRecord* const record = RecordOf(statement); record != nullptr) {
    const CellWriter writer(record->seq);
    StoreText(record->schema, schema);
    record->bits.store(record->bits.load(kRelaxed) | kStatementHasSchema, kRelease);
  }
}

void SetStatementDialect(Statement& statement, Dialect dialect) {
  if (!IsMine(statement) || statement.flags == 0) return;
  statement.flags = (statement.flags & ~kFlagDialectMask) | static_cast<uint32_t>(dialect) << kFlagDialectShift;
}

void SetStatementText(Statement& statement, std::string_view text) {
  if (!IsMine(statement)) return;
  const NestedProbe probe(*statement.thread);
  if (!probe) return;
  ThreadState& thread = *statement.thread;
  const OpenStatement* const open = PlaceOf(statement);
  // It was dropped, and its buffer may be another's.
  if (open == nullptr && statement.buffer < g_runtime.statement_stack) return;
  BufferOwner(thread, statement.buffer) = statement.serial;
  char* const sql = SqlBuffer(thread, statement.buffer);
  uint8_t* const tokens = TokensBehind(sql);
  const TextSizes& sizes = g_runtime.text_sizes;
  statement.sql_bytes = static_cast<uint32_t>(CutText(text, sizes.sql_limit, sql));
  if ((statement.flags & kFlagDigest) != 0 && sizes.digest_limit != 0) {
    SetTokens(statement, text, sql, {tokens, sizes.digest_limit});
  } else [[unlikely]] {
    statement.digest_bytes = 0;
    statement.entry = nullptr;
    if (MayHaveSecret(text)) MaskSecrets(statement, text, sql);
  }
  if (open != nullptr && StillHas(open->record, open->begun_state)) ShowText(statement, *open->record, sql, tokens);
}

void SetStatementCounter(Statement& statement, StatementCounter counter, uint64_t value) {
  const auto at = static_cast<uint32_t>(counter);
  if (statement.thread == nullptr || at >= kStatementCounters) return;
  statement.counters[at] = value;
  statement.set |= 1u << at;
  if (!IsMine(statement)) return;  // the end shows it
  if (ShmStatementRecord* const record = RecordOf(statement); record != nullptr) {
    record->counters[at].store(value, kRelease);
    record->bits.store(record->bits.load(kRelaxed) | CounterBit(at), kRelease);  // pairs with StatementEvent::Load
  }
}

void SetStatementId(Statement& statement, uint64_t statement_id) {
  if (!IsMine(statement)) return;
  if (ShmStatementRecord* const record = RecordOf(statement); record != nullptr) record->statement_id.store(statement_id, kRelease);
}

void SetStatementSecondary(Statement& statement, bool is_secondary) {
  if (!IsMine(statement)) return;
  statement.is_secondary = is_secondary;
  if (ShmStatementRecord* const record = RecordOf(statement); record != nullptr) {
    const CellWriter writer(record->seq);
    const uint64_t others = record->bits.load(kRelaxed) & ~kStatementIsSecondary;
    record->bits.store(others | (is_secondary ? kStatementIsSecondary : 0), kRelease);
  }
}

void SetStatementTraceparent(Statement& statement, const Traceparent* parent) {
  if (!IsMine(statement)) return;
  ShmStatementRecord* const record = RecordOf(statement);
  if (record == nullptr) return;
  const CellWriter writer(record->seq);
  const uint64_t others = record->bits.load(kRelaxed) & ~kStatementHasTrace;
  record->bits.store(others | (parent != nullptr ? kStatementHasTrace : 0), kRelease);
  if (parent == nullptr) return;
  record->trace_flags.store(parent->flags, kRelease);
  CopyToShared(record->trace, parent->ids, Traceparent::kBytes);
}

void SetStatementDiagnostics(Statement& statement, uint32_t number, std::string_view sqlstate, std::string_view message) {
  if (statement.thread == nullptr) return;
  SetStatementCounter(statement, StatementCounter::kErrors, number != 0);
  if (!IsMine(statement)) return SetDiagnosticsOfAnother(statement, number, sqlstate, message);
  if (statement.has_secret && number != 0) HideMessages(*statement.thread);
  ShmStatementRecord* const record = RecordOf(statement);
  if (record == nullptr) return;
  const CellWriter writer(record->seq);
  StoreDiagnostics(*record, statement.has_secret, number, sqlstate, message);
  record->bits.store(record->bits.load(kRelaxed) | kStatementHasDiagnostics, kRelease);
}

size_t SuspendStatement(Statement& statement, char* saved, size_t bytes) {
  if (!IsMine(statement)) return 0;
  ThreadState& thread = *statement.thread;
  if (thread.statement_depth > 1) ForgetEndedStatements(thread);
  const OpenStatement* const place = PlaceOf(statement);
  if (place != nullptr && place + 1 != thread.statements + thread.statement_depth) return 0;
  const bool has_text = BufferOwner(thread, statement.buffer) == statement.serial;
  const size_t needed = sizeof(OpenStatement) + (has_text ? statement.sql_bytes + statement.digest_bytes : 0);
  if (bytes < needed) return needed;
  const NestedProbe probe(thread);
  if (!probe) return 0;
  const OpenStatement open = place != nullptr ? *place : OpenStatement{};
  std::memcpy(saved, &open, sizeof open);
  if (has_text) {
    std::memcpy(saved + sizeof open, SqlBuffer(thread, statement.buffer), statement.sql_bytes);
    std::memcpy(saved + sizeof open + statement.sql_bytes, TokenBuffer(thread, statement.buffer), statement.digest_bytes);
  } else {
    statement.sql_bytes = statement.digest_bytes = 0;
  }
  if (place != nullptr) --thread.statement_depth;
  HoldSuspended(statement);
  SetParentOfWaits(thread);
  return needed;
}

void ResumeStatement(Statement& statement, const char* saved) {
  if (statement.thread == nullptr) return;
  if (!IsMine(statement)) return ResumeOfAnother(statement, saved);
  ThreadState& thread = *statement.thread;
  const NestedProbe probe(thread);
  if (!probe) return;
  OpenStatement open;
  std::memcpy(&open, saved, sizeof open);
  statement.record = open.record;
  if (thread.statement_depth < g_runtime.statement_stack) {
    open.serial = statement.serial;
    open.buffer = statement.buffer = FreeBuffer(thread);
    thread.statements[thread.statement_depth++] = open;
  } else {
    statement.buffer = g_runtime.statement_stack;
    DropRecord(open.record, open.begun_state);
    CountLoss(Loss::kNestedStatements);
  }
  statement.entry = nullptr;  // the texts may be another task's
  if (statement.sql_bytes + statement.digest_bytes != 0) {
    BufferOwner(thread, statement.buffer) = statement.serial;
    std::memcpy(SqlBuffer(thread, statement.buffer), saved + sizeof open, statement.sql_bytes);
    std::memcpy(TokenBuffer(thread, statement.buffer), saved + sizeof open + statement.sql_bytes, statement.digest_bytes);
  }
  SetParentOfWaits(thread);
}

uint32_t TimingOfPrograms(const ThreadState& thread) {
  const ShmHeader& header = *g_runtime.header;
  const bool is_on = header.consumers[static_cast<uint32_t>(Consumer::global_instrumentation)].load(kRelaxed) != 0;
  if (!is_on || (thread.shared->flags.load(kRelaxed) & kThreadInstrumented) == 0) return 0;
  const uint32_t timer = header.timer_of[static_cast<uint32_t>(TimedClass::kStatement)].load(kRelaxed) - 1;
  const auto source = static_cast<uint32_t>(header.timers[timer].source);
  return kFlagEnabled | kFlagTimed | source << kFlagTimerShift | (source == static_cast<uint32_t>(TimerId::kCycle) ? 0 : kFlagSlowTimer);
}

void DescribePreparer(const Statement& statement, NewPrepared* prepared) {
  if (!IsMine(statement)) return;
  if (const OpenStatement* open = PlaceOf(statement); open != nullptr) prepared->owner_event_id = open->event_id;
  prepared->prepare_ps = MeasuredUntil(statement.flags, statement.start_ticks, TicksOf(statement.flags)).wait_ps;
  prepared->program = statement.program;
}

}  // namespace perfschema
