// perfschema/statement.hpp: stages, statements and transactions as blocks. A part of pfs.hpp, which the program includes.
//
//     perfschema::statement statement{"myapp/query", sql, "shop"};
//     {
//       perfschema::stage stage{"myapp/parsing"};
//       parse(sql);
//     }
//     statement.add(PFS_ROWS_SENT, rows);
//
// stage.h, statement.h and transaction.h describe the rows of the tables.
//
// Threads: each object belongs to the thread that made it. Another thread may destroy a statement or a transaction, as statement.h and
// transaction.h say; a stage belongs to its thread.
#ifndef PERFSCHEMA_STATEMENT_HPP
#define PERFSCHEMA_STATEMENT_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

#include <exception>

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

// Registers "component/name"; the same name has the same key. Keep the key for blocks that run often.
inline pfs_key_t stage_key(std::string_view name, uint32_t flags = 0) { return detail::key_of(pfs_register_stage, name, flags); }
inline pfs_key_t statement_key(std::string_view name, uint32_t flags = 0) { return detail::key_of(pfs_register_statement, name, flags); }

// The thread is in this stage until the object is destroyed, or another stage begins: stages do not nest.
class [[nodiscard]] stage {
 public:
  explicit stage(pfs_key_t key, PFS_CALLER_) { PFS_CALL_(stage_begin, key); }
  explicit stage(std::string_view name, PFS_CALLER_) { PFS_CALL_(stage_begin, stage_key(name, PFS_PROGRESS)); }
  explicit stage(const char* name, PFS_CALLER_) : stage(std::string_view(name), source_file, source_line) {}
  ~stage() { pfs_stage_end(); }
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;

  void estimated(uint64_t work) noexcept { pfs_stage_set_estimated(work); }
  void completed(uint64_t work) noexcept { pfs_stage_set_completed(work); }
  void advance(uint64_t more = 1) noexcept { pfs_stage_add_completed(more); }
};

// A statement, from construction to destruction. If an exception ends it and the program has set no error, it gets one.
class [[nodiscard]] statement {
 public:
  explicit statement(pfs_key_t key, std::string_view text = {}, const char* schema = nullptr, PFS_CALLER_) {
    begin(key, source_file, source_line);
    if (schema != nullptr) pfs_statement_set_schema(&statement_, schema);
    if (!text.empty()) this->text(text);
  }
  explicit statement(std::string_view name, std::string_view text = {}, const char* schema = nullptr, PFS_CALLER_)
      : statement(statement_key(name), text, schema, source_file, source_line) {}
  explicit statement(const char* name, std::string_view text = {}, const char* schema = nullptr, PFS_CALLER_)
      : statement(std::string_view(name), text, schema, source_file, source_line) {}
  ~statement() {
    if (!has_outcome_ && std::uncaught_exceptions() > exceptions_) pfs_statement_set_error(&statement_, 1105, "HY000", nullptr);
    pfs_statement_end(&statement_);
  }
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;

  void text(std::string_view text) noexcept { pfs_statement_set_text(&statement_, text.data(), text.size()); }
  // Returns false if the text is no traceparent of W3C: then nothing changes.
  bool traceparent(std::string_view text) noexcept { return pfs_statement_set_traceparent(&statement_, text.data(), text.size()) == 0; }
  void refine(pfs_key_t key) noexcept { pfs_statement_refine(&statement_, key); }
  void add(pfs_statement_counter counter, uint64_t more) noexcept { pfs_statement_add(&statement_, counter, more); }
  void set(pfs_statement_counter counter, uint64_t value) noexcept { pfs_statement_set(&statement_, counter, value); }
  // Sets the result. number 0 = no error.
  void error(int number, const char* sqlstate = nullptr, const char* message = nullptr) noexcept {
    has_outcome_ = true;
    pfs_statement_set_error(&statement_, number, sqlstate, message);
  }
  pfs_statement_t* get() noexcept { return &statement_; }

 private:
#ifdef PFS_DISABLE
  void begin(pfs_key_t key, const char*, uint32_t) noexcept { pfs_statement_begin(&statement_, key); }
#else
  void begin(pfs_key_t key, const char* file, uint32_t line) noexcept { pfs_statement_begin_at(&statement_, key, nullptr, file, line); }
#endif

  pfs_statement_t statement_;
  bool has_outcome_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

// A transaction, from construction to commit() or rollback(). If it is destroyed without either, it is rolled back.
class [[nodiscard]] transaction {
 public:
  explicit transaction(pfs_isolation isolation = PFS_ISOLATION_UNKNOWN, bool read_only = false, bool autocommit = false, PFS_CALLER_) {
    PFS_CALL_(transaction_begin, &transaction_, isolation, read_only ? 1 : 0, autocommit ? 1 : 0);
  }
  ~transaction() { rollback(); }
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;

  void commit() noexcept { pfs_transaction_end(&transaction_, 1); }
  void rollback() noexcept { pfs_transaction_end(&transaction_, 0); }  // a second end does nothing
  void savepoint() noexcept { pfs_transaction_add_savepoints(&transaction_, 1); }
  pfs_transaction_t* get() noexcept { return &transaction_; }

 private:
  pfs_transaction_t transaction_;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_STATEMENT_HPP
