// base/sql_passing_names.h: names that may differ each time a statement is sent, and so are values: of savepoints, cursors, prepared
// statements, temporary tables.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "base/sql_reducer.h"
#include "base/sql_scanner.h"

namespace perfschema {

namespace sql_tokens {
constexpr uint16_t WordCode(std::string_view word) { return CodeOfSqlWord(FindWord(word)); }
inline constexpr uint16_t kAllWord = WordCode("ALL"), kCloseWord = WordCode("CLOSE"), kDeallocateWord = WordCode("DEALLOCATE"),
                          kDeclareWord = WordCode("DECLARE"), kExistsWord = WordCode("EXISTS"), kFetchWord = WordCode("FETCH"),
                          kFromWord = WordCode("FROM"), kIfWord = WordCode("IF"), kIntoWord = WordCode("INTO"),
                          kPrepareWord = WordCode("PREPARE"), kReleaseWord = WordCode("RELEASE"), kRollbackWord = WordCode("ROLLBACK"),
                          kSavepointWord = WordCode("SAVEPOINT"), kTempWord = WordCode("TEMP"), kTemporaryWord = WordCode("TEMPORARY"),
                          kToWord = WordCode("TO"), kTransactionWord = WordCode("TRANSACTION"), kViewWord = WordCode("VIEW"),
                          kWorkWord = WordCode("WORK");
}  // namespace sql_tokens

// Has the place in a statement and the tokens before it.
// Threads: external lock.
template <const SqlRules& kRules>
class SqlPassingNames : protected SqlScanner<kRules> {
 protected:
  using typename SqlScanner<kRules>::Byte;
  using SqlScanner<kRules>::At;
  using SqlScanner<kRules>::Behind;
  using SqlScanner<kRules>::BehindQuoted;
  using SqlScanner<kRules>::BehindWord;
  using SqlScanner<kRules>::FindWord;
  using SqlScanner<kRules>::Next;
  using SqlScanner<kRules>::Skip;
  using SqlScanner<kRules>::While;
  using SqlScanner<kRules>::end_;

  SqlPassingNames(std::string_view sql, std::span<uint8_t> out)
      : SqlScanner<kRules>(reinterpret_cast<Byte>(sql.data()) + sql.size()), at_(reinterpret_cast<Byte>(sql.data())), out_(out) {}

  void PutName(Byte from, Byte to) {
    name_end_ = to;
    out_.PutName(from, static_cast<size_t>(to - from), static_cast<size_t>(end_ - from));
  }
  void PutSign(uint16_t code) {
    out_.PutSign(code, kRules.is_mysql ? sql_tokens::kTraits[out_.last()].before_number : out_.AtExpression());
  }

  // Returns whether the '.' at at_, behind a word that ends at `word_end`, makes the word a name. (`SELECT .5` has a number.)
  bool Qualifies(Byte word_end) const {
    if (sql_bytes::Is(At(at_, 1), sql_bytes::kDigit)) return at_ == word_end;
    bool in_code_comment = in_code_comment_;
    const Byte next = Skip(at_ + 1, &in_code_comment);
    return next != end_ && (sql_bytes::Is(*next, sql_bytes::kLetter) || *next == '`' || *next == '"' || *next == '*');
  }

  // q'[text]' of Oracle; the place is at its quote.
  void ReadQString() {
    const uint8_t open = At(at_, 1);
    const uint8_t close = open == '[' ? ']' : open == '(' ? ')' : open == '{' ? '}' : open == '<' ? '>' : open;
    at_ = end_ - at_ > 2 ? at_ + 2 : end_;
    do {
      at_ = Behind(at_, close);
    } while (at_ != end_ && *at_ != '\'');
    if (at_ != end_) ++at_;
    out_.PutValue();
  }

  // Reads a number whose first digits and letters end at `end`: no name begins with a digit.
  void ReadNumber(Byte from, Byte end) {
    const bool is_hex = *from == '0' && (At(from, 1) | 0x20) == 'x';
    if (*from != '.' && At(end) == '.') end = While(end + 1, sql_bytes::kWordPart);
    if (!is_hex && (end[-1] | 0x20) == 'e' && (At(end) == '-' || At(end) == '+') && sql_bytes::Is(At(end, 1), sql_bytes::kDigit))
      end = While(end + 1, sql_bytes::kWordPart);
    at_ = end;
    out_.PutNumber();
  }

  // Reads behind a word that a savepoint, a cursor or a prepared statement may follow. The place is behind its blanks.
  [[gnu::noinline]] void ReadPassing(Byte word, Byte behind, uint16_t code) {
    const bool is_first = out_.last() == kNothing || out_.last() == kSemicolon, is_into = out_.last() == sql_tokens::kIntoWord;
    code == kName ? PutName(word, behind) : out_.Put(code);
    if (out_.full()) return;
    if (code == sql_tokens::kSavepointWord) {
      PassName();
    } else if (code == sql_tokens::kTransactionWord) {
      if (WordHere() == 0) PassName();
    } else if (code == sql_tokens::kTempWord || code == sql_tokens::kTemporaryWord) {
      ReadTemporary(is_into);
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
  bool HasDigit() const { return HasDigit(at_, BehindName(at_)); }
  static bool HasDigit(Byte from, Byte to) {
    for (Byte at = from; at != to; ++at) {
      if (sql_bytes::Is(*at, sql_bytes::kDigit)) return true;
    }
    return false;
  }
  // Reads the name of a temporary table or view behind TEMP. `is_into`: SELECT INTO needs no TABLE.
  void ReadTemporary(bool is_into) {
    const uint16_t kind = WordHere();
    if (kind == sql_tokens::kTableWord || kind == sql_tokens::kViewWord) {
      PutWordHere(kind);
    } else if (!is_into) {
      return;
    }
    for (const uint16_t word : {sql_tokens::kIfWord, sql_tokens::kNotWord, sql_tokens::kExistsWord}) {
      if (WordHere() == word) PutWordHere(word);
    }
    const Byte behind = BehindName(at_);
    const bool is_quoted = !sql_bytes::Is(At(at_), sql_bytes::kLetter);
    if (behind != at_ && At(behind) == '.' && !out_.full()) {
      is_quoted ? PutName(at_ + 1, behind - 1) : PutName(at_, behind);
      at_ = behind;
      PassInSchema();
    } else {
      PassTemporary();
    }
  }
  // Reads a '.' at at_, and the name of a temporary table behind it.
  void PassInSchema() {
    ++at_;
    if (out_.full()) return;
    out_.Put(kDot);
    SkipBlanks();
    PassTemporary();
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
  size_t temporary_count_ = 0;

  // Returns the place behind the name at at_ if this text has declared a temporary table of that name, else at_.
  Byte BehindTemporary() const {
    const Byte behind = BehindName(at_), inside = sql_bytes::Is(*at_, sql_bytes::kLetter) ? at_ : at_ + 1;
    if (behind == at_) return at_;
    const size_t length = static_cast<size_t>(behind - inside) - static_cast<size_t>(inside - at_);
    for (size_t i = 0; i < temporary_count_; ++i) {
      const Name& name = temporary_[i];
      if (static_cast<size_t>(name.to - name.from) == length && std::memcmp(name.from, inside, length) == 0) return behind;
    }
    return at_;
  }

 private:
  struct Name {
    Byte from, to;
  };

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
  // Reads the name of a temporary table at at_ as a value here and behind, if it has a digit.
  void PassTemporary() {
    if (!HasDigit()) return;
    const Byte from = at_;
    PassName();
    const Byte inside = sql_bytes::Is(*from, sql_bytes::kLetter) ? from : from + 1;
    if (temporary_count_ < temporary_.size()) temporary_[temporary_count_++] = {inside, at_ - (inside - from)};
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

  std::array<Name, 4> temporary_;  // texts seldom declare more
};

}  // namespace perfschema
