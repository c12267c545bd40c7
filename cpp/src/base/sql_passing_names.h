// base/sql_passing_names.h: names that may differ each time a statement is sent, and so are values: of savepoints, cursors, prepared
// statements.
#pragma once

#include <span>
#include <string_view>

#include "base/sql_reducer.h"
#include "base/sql_scanner.h"

namespace perfschema {

namespace sql_tokens {
constexpr uint16_t WordCode(std::string_view word) { return CodeOfSqlWord(FindWord(word)); }
inline constexpr uint16_t kAllWord = WordCode("ALL"), kCloseWord = WordCode("CLOSE"), kDeallocateWord = WordCode("DEALLOCATE"),
                          kDeclareWord = WordCode("DECLARE"), kFetchWord = WordCode("FETCH"), kFromWord = WordCode("FROM"),
                          kPrepareWord = WordCode("PREPARE"), kReleaseWord = WordCode("RELEASE"), kRollbackWord = WordCode("ROLLBACK"),
                          kSavepointWord = WordCode("SAVEPOINT"), kToWord = WordCode("TO"), kTransactionWord = WordCode("TRANSACTION"),
                          kWorkWord = WordCode("WORK");
}  // namespace sql_tokens

// Has the place in a statement and the tokens before it.
// Threads: external lock.
template <const SqlRules& kRules>
class SqlPassingNames : protected SqlScanner<kRules> {
 protected:
  using typename SqlScanner<kRules>::Byte;
  using SqlScanner<kRules>::At;
  using SqlScanner<kRules>::BehindQuoted;
  using SqlScanner<kRules>::BehindWord;
  using SqlScanner<kRules>::FindWord;
  using SqlScanner<kRules>::Next;
  using SqlScanner<kRules>::While;
  using SqlScanner<kRules>::end_;

  SqlPassingNames(std::string_view sql, std::span<uint8_t> out)
      : SqlScanner<kRules>(reinterpret_cast<Byte>(sql.data()) + sql.size()), at_(reinterpret_cast<Byte>(sql.data())), out_(out) {}

  void PutName(Byte from, Byte to) {
    name_end_ = to;
    out_.PutName(from, static_cast<size_t>(to - from), static_cast<size_t>(end_ - from));
  }
  void PutSign(uint16_t code) { out_.PutSign(code, kRules.is_mysql ? sql_tokens::kFacts[out_.last()].before_number : out_.AtExpression()); }

  // Reads behind a word that a savepoint, a cursor or a prepared statement may follow. The place is behind its blanks.
  [[gnu::noinline]] void ReadPassing(Byte word, Byte behind, uint16_t code) {
    const bool is_first = out_.last() == kNothing || out_.last() == kSemicolon;
    code == kName ? PutName(word, behind) : out_.Put(code);
    if (out_.full()) return;
    if (code == sql_tokens::kSavepointWord) {
      PassName();
    } else if (code == sql_tokens::kTransactionWord) {
      if (WordHere() == 0) PassName();
    } else if (!is_first) {
      return;
    } else if (code == sql_tokens::kReleaseWord) {
      if (WordHere() != sql_tokens::kSavepointWord) PassName();
    } else if (code == sql_tokens::kRollbackWord) {
      for (const uint16_t word : {sql_tokens::kWorkWord, sql_tokens::kTransactionWord, sql_tokens::kToWord}) {
        if (WordHere() == word) PutWordHere(word);
      }
      const bool is_before_name = out_.last() == sql_tokens::kTransactionWord || out_.last() == sql_tokens::kToWord;
      if (is_before_name && WordHere() == 0) PassName();
    } else if (code == sql_tokens::kDeclareWord) {
      if (IsCursorDeclared()) PassName();
    } else if (code == sql_tokens::kFetchWord || code == kName) {  // MOVE
      ReadDirection();
    } else if (code == sql_tokens::kCloseWord) {
      if (WordHere() != sql_tokens::kAllWord) PassName();
    } else if (code == sql_tokens::kDeallocateWord) {
      if (WordHere() == sql_tokens::kPrepareWord) PutWordHere(sql_tokens::kPrepareWord);
      if (WordHere() != sql_tokens::kAllWord) PassName();
    } else if (kRules.has_prepared_names && WordHere() == 0 && HasDigit()) {  // PREPARE, EXECUTE
      PassName();
    }
  }
  bool HasDigit() const {
    for (Byte at = at_; at != BehindName(at_); ++at) {
      if (sql_bytes::Is(*at, sql_bytes::kDigit)) return true;
    }
    return false;
  }
  // Returns whether CURSOR is one of the words behind the name at at_.
  bool IsCursorDeclared() const {
    constexpr int kMostWords = 8;
    SqlPassingNames ahead = *this;
    for (int i = 0; i < kMostWords; ++i) {
      const Byte from = ahead.at_;
      if (i > 0 && ahead.IsHere("CURSOR")) return true;
      ahead.at_ = BehindName(from);
      if (ahead.at_ == from) return false;
      ahead.SkipBlanks();
    }
    return false;
  }
  // FETCH and MOVE: the cursor is behind FROM or IN, or what remains behind the direction.
  void ReadDirection() {
    for (;;) {
      const uint16_t word = WordHere();
      if (word == sql_tokens::kFromWord || word == sql_tokens::kInWord) {
        PutWordHere(word);
        PassName();
        return;
      }
      const bool is_direction =
          IsHere("NEXT") || IsHere("PRIOR") || IsHere("ABSOLUTE") || IsHere("RELATIVE") || IsHere("FORWARD") || IsHere("BACKWARD");
      if (is_direction) {
        const Byte from = at_;
        at_ = BehindWord(at_);
        PutName(from, at_);
        SkipBlanks();
      } else if (word != 0) {  // FIRST, LAST, ALL
        PutWordHere(word);
      } else if (sql_bytes::Is(At(at_), sql_bytes::kDigit)) {
        at_ = While(at_, sql_bytes::kDigit);
        out_.PutNumber();
        SkipBlanks();
      } else if (At(at_) == '-') {
        ++at_;
        PutSign(kMinus);
        SkipBlanks();
      } else {
        PassName();
        return;
      }
      if (out_.full()) return;
    }
  }

  Byte at_;
  SqlReducer out_;
  Byte name_end_ = nullptr;
  bool in_code_comment_ = false;

 private:
  // Returns the place behind the name at `at`, which is `at` if there is none.
  Byte BehindName(Byte at) const {
    const uint8_t first = At(at);
    if (first == '"' || first == '`' || first == '[') return BehindQuoted(at + 1, first == '[' ? ']' : first);
    return sql_bytes::Is(first, sql_bytes::kLetter) ? BehindWord(at) : at;
  }
  // Reads the name at at_ as a value, if there is one.
  void PassName() {
    const Byte from = at_;
    at_ = BehindName(from);
    if (at_ != from && !out_.full()) out_.PutValue();
  }
  // Returns the code of the word at at_, and 0 if there is none or it is no keyword.
  uint16_t WordHere() const {
    if (at_ == end_ || !sql_bytes::Is(*at_, sql_bytes::kLetter)) return 0;
    const sql_tokens::WordEntry* entry = FindWord(at_, static_cast<size_t>(BehindWord(at_) - at_));
    return entry == nullptr || entry->code == kName ? uint16_t{0} : entry->code;
  }
  void SkipBlanks() { at_ = Next(at_, &in_code_comment_); }
  void PutWordHere(uint16_t code) {
    at_ = BehindWord(at_);
    SkipBlanks();
    if (out_.full()) return;
    code == sql_tokens::kInWord ? out_.PutSoft(code) : out_.Put(code);
  }
  bool IsHere(std::string_view word) const {
    if (static_cast<size_t>(end_ - at_) < word.size() || BehindWord(at_) != at_ + word.size()) return false;
    for (size_t i = 0; i < word.size(); ++i) {
      if ((at_[i] & 0xdfu) != static_cast<uint8_t>(word[i])) return false;
    }
    return true;
  }
};

}  // namespace perfschema
