// base/sql_lexer.cpp: reads SQL of any dialect, and any other bytes, token by token.
#include <cstring>

#include "base/digest.h"
#include "base/request_digest.h"
#include "base/sql_passing_names.h"

namespace perfschema {

namespace {

using namespace sql_bytes;

// Reads by the rules of a dialect.
// Threads: external lock.
template <const SqlRules& kRules>
class SqlLexer final : SqlPassingNames<kRules> {
 public:
  SqlLexer(std::string_view sql, std::span<uint8_t> out) : Base(sql, out) {}

  // Is flattened into one function: a third faster than with calls.
  [[gnu::flatten]] size_t Run() {
    while (!out_.full()) {
      at_ = Next(at_, &in_code_comment_);
      if (at_ == end_) break;
      Step();
    }
    return out_.Finish();
  }

 private:
  // Reads the token at at_.
  void Step() {
    const bool behind_string = behind_string_;
    behind_string_ = false;
    const uint8_t c = *at_;
    if (Is(c, kLetter)) {
      ReadWord(behind_string);
    } else if (Is(c, kDigit)) {
      ReadNumberOrName();
    } else {
      ReadOther(c, behind_string);
    }
  }

  using Base = SqlPassingNames<kRules>;
  using Base::At;
  using Base::at_;
  using Base::Behind;
  using Base::BehindTemporary;
  using Base::BehindWord;
  using Base::end_;
  using Base::Exponent;
  using Base::FindWord;
  using Base::HasDigit;
  using Base::in_code_comment_;
  using Base::kIsMysql;
  using Base::kIsPostgres;
  using Base::name_end_;
  using Base::Next;
  using Base::out_;
  using Base::PassInSchema;
  using Base::PutName;
  using Base::PutSign;
  using Base::Qualifies;
  using Base::ReadNumber;
  using Base::ReadPassing;
  using Base::ReadQString;
  using Base::Skip;
  using Base::temporary_count_;
  using Base::While;
  using typename Base::Byte;

  // ---- Words ----

  void ReadWord(bool behind_string) {
    const Byte word = at_, behind = BehindWord(word);
    const uint16_t last = out_.last();
    at_ = behind;
    if constexpr (kIsMysql) return ReadMysqlWord(word, behind);
    if (last == kDot) return PutName(word, behind);
    const uint8_t next = At(behind);
    if ((next == '\'' || next == '"' || (kIsPostgres && next == '&')) && ReadPrefixed(word, behind, next, behind_string)) return;
    const sql_tokens::WordEntry* entry = FindWord(word, static_cast<size_t>(behind - word));
    if (entry == nullptr) return PutName(word, behind);
    at_ = Next(behind, &in_code_comment_);
    if (At(at_) == '.' && Qualifies(behind)) return entry->code == kName ? ReadSchema(word, behind, *entry) : PutName(word, behind);
    if ((entry->traits & (kOnlyCalled | kBeforePassingName)) != 0) {
      if ((entry->traits & kBeforePassingName) != 0) {
        ReadPassing(word, behind, entry->code);
        return temporary_count_ != 0 && !knows_temporary_ ? RunWithTemporary() : void();
      }
      if (At(at_) != '(') return PutName(word, behind);
    }
    static_assert(sql_tokens::kInWord == kFirstSqlWord && sql_tokens::kNullWord == kFirstSqlWord + 1);
    if (entry->code <= sql_tokens::kNullWord) {  // one comparison for nearly all words
      if (entry->code == sql_tokens::kInWord) return out_.PutSoft(entry->code);
      if (out_.AtExpression() && last != sql_tokens::kNotWord && last != sql_tokens::kIsWord) return out_.PutValue();
    }
    out_.Put(entry->code);
  }

  // Reads a name of a schema that is a word of the table, too.
  [[gnu::noinline]] void ReadSchema(Byte word, Byte behind, const sql_tokens::WordEntry& entry) {
    PutName(word, behind);
    if ((entry.traits & kTemporarySchema) != 0) PassInSchema();
    if (temporary_count_ != 0 && !knows_temporary_) RunWithTemporary();
  }

  // Reads the rest of a text that has named temporary tables. It is apart, so that other texts pay nothing.
  [[gnu::noinline]] void RunWithTemporary() {
    knows_temporary_ = true;
    while (!out_.full()) {
      at_ = Next(at_, &in_code_comment_);
      if (at_ == end_) break;
      const Byte name_end = BehindTemporary();
      if (name_end != at_) {
        at_ = name_end;
        out_.PutValue();
      } else {
        Step();
      }
    }
  }

  // Reads the string or the name that `word` is a prefix of. Returns false if it is no prefix.
  bool ReadPrefixed(Byte word, Byte behind, uint8_t next, bool behind_string) {
    const uint8_t letter = *word & 0xdfu;
    const bool is_letter = behind - word == 1;
    if (kIsPostgres && next == '&') {  // U&'text', U&"name"
      const uint8_t quote = At(behind, 1);
      if (!is_letter || letter != 'U' || (quote != '\'' && quote != '"')) return false;
      at_ = behind + 1;
      quote == '"' ? ReadQuotedName(quote) : ReadString(quote, behind_string, false);
      return true;
    }
    if (next == '\'' && kRules.has_q_strings && (word[behind - word - 1] & 0xdfu) == 'Q' &&
        (is_letter || (behind - word == 2 && letter == 'N'))) {
      ReadQString();
      return true;
    }
    if (next == '\'' && is_letter && (letter == 'N' || letter == 'X' || letter == 'B')) {
      ReadString(next, behind_string, letter != 'N');
      return true;
    }
    if (next == '\'' && is_letter && letter == 'E' && kRules.backslash != Backslash::kIsPlain) {
      ReadString(next, behind_string, false, true);
      return true;
    }
    if (kRules.backslash != Backslash::kEscapes || *word != '_') return false;
    ReadString(next, behind_string, false);  // a character set in front of its string
    return true;
  }

  // MySQL joins no word to a '.' or a '(' over blanks.
  void ReadMysqlWord(Byte word, Byte behind) {
    const uint16_t last = out_.last();
    if (last == kDot && word[-1] == '.') return PutName(word, behind);
    const uint8_t next = At(behind), letter = *word & 0xdfu;
    if (next == '\'' && behind - word == 1 && (letter == 'N' || letter == 'X' || letter == 'B')) {
      return ReadString(next, false, letter != 'N');
    }
    const std::string_view text(reinterpret_cast<const char*>(word), static_cast<size_t>(behind - word));
    if (*word == '_' && IsMysqlCharacterSet(text.substr(1))) return out_.Put(kCharset);
    const sql_tokens::WordEntry* entry = FindWord(word, text.size());
    const bool is_qualifier = next == '.' && Is(At(behind, 1), kWordPart) && last != kSystemVariable;
    if (entry == nullptr || is_qualifier || ((entry->traits & kOnlyCalled) != 0 && next != '(')) return PutName(word, behind);
    if (entry->code == sql_tokens::kInWord) return out_.PutSoft(entry->code);
    if (entry->code == sql_tokens::kNullWord && out_.AtExpression() && last != sql_tokens::kNotWord && last != sql_tokens::kIsWord) {
      return out_.PutValue();
    }
    out_.Put(entry->code);
  }

  // ---- Literals ----

  // Names may begin with digits, too.
  void ReadNumberOrName() {
    const Byte from = at_, word_end = While(from, kWordPart);
    at_ = word_end;
    if (out_.last() == kDot) return PutName(from, word_end);
    const uint8_t base = At(from, 1) | 0x20;
    if (*from == '0' && base == 'x' && word_end - from > 2 && While(from + 2, kHexDigit) == word_end) return out_.PutNumber();
    if (*from == '0' && base == 'b' && word_end - from > 2 && While(from + 2, kBinaryDigit) == word_end) return out_.PutNumber();
    if constexpr (!kRules.names_begin_with_digits) return ReadNumber(from, word_end);
    Byte digits = While(from, kDigit);
    if (!kIsMysql && digits != word_end) {
      if (*from == '0' && base == 'o' && word_end - from > 2 && While(from + 2, kDigit) == word_end) return out_.PutNumber();
      Byte all = digits;  // 1_000
      while (all != word_end && (*all == '_' || Is(*all, kDigit))) ++all;
      if (all == word_end) digits = all;
    }
    if (At(digits) == '.') {
      at_ = Exponent(While(digits + 1, kDigit));
      return out_.PutNumber();
    }
    const Byte exponent = Exponent(digits);
    if (exponent >= word_end) {  // a signed exponent reaches behind the word
      if (exponent == end_ || !Is(*exponent, kWordPart)) {
        at_ = exponent;
        return out_.PutNumber();
      }
    }
    PutName(from, word_end);
  }

  // Reads a string; `quote` is at at_. Two adjacent strings are one literal, and two in digests of MySQL.
  void ReadString(uint8_t quote, bool behind_string, bool is_number, bool is_behind_e = false) {
    const bool escapes = kRules.backslash == Backslash::kEscapes || (kRules.backslash == Backslash::kEscapesAfterE && is_behind_e);
    const Byte from = at_;
    Byte at = from + 1;
    for (;;) {
      at = While(at, kInString);
      if (at == end_) break;
      if (escapes && *at == '\\') {
        at = end_ - at > 2 ? at + 2 : end_;
      } else if (*at != quote) {
        ++at;
      } else if (At(at, 1) == quote) {
        at += 2;
      } else {
        break;
      }
    }
    const Byte inside_end = at;
    at_ = at == end_ ? end_ : at + 1;
    if (!kIsMysql && !kRules.quotes_names && quote == '"') {  // next to a '.' it is a name
      const Byte behind = at_;
      at_ = Skip(behind, &in_code_comment_);
      if (out_.last() == kDot || (At(at_) == '.' && Qualifies(behind))) {
        PutName(from + 1, inside_end);
        name_end_ = behind;
        return;
      }
    }
    behind_string_ = !kIsMysql;
    if (behind_string) return;
    if (is_number) {
      out_.PutNumber();
    } else {
      out_.PutValue();
    }
  }

  [[gnu::noinline]] void ReadQuotedName(uint8_t close) {
    const Byte from = at_ + 1;
    Byte at = from;
    for (; at != end_; ++at) {
      if (*at != close) continue;
      if (At(at, 1) != close) break;
      ++at;
    }
    at_ = at == end_ ? end_ : at + 1;
    if (kRules.has_hash_names && At(from) == '#' && HasDigit(from, at)) {
      out_.PutValue();
    } else {
      out_.PutName(from, static_cast<size_t>(at - from), static_cast<size_t>(end_ - from));
    }
    name_end_ = at_;
  }

  // $1, $$text$$, $tag$text$tag$, $name
  [[gnu::noinline]] void ReadDollar() {
    Byte at = at_ + 1;
    if (Is(At(at), kDigit)) {
      at_ = While(at, kDigit);
      if (kRules.has_money && At(at_) == '.') at_ = While(at_ + 1, kDigit);  // an amount of money
      return out_.PutValue();
    }
    at = While(at, kLetter | kDigit);
    const size_t tag = static_cast<size_t>(at - at_) + 1;
    if (kRules.has_dollar_strings && At(at) == '$' && tag <= kLongestTag) {
      // `close` stands behind a '$' that may be the first one of the closing tag.
      for (Byte close = Behind(at + 1, '$'); static_cast<size_t>(end_ - close) + 1 >= tag; close = Behind(close, '$')) {
        if (std::memcmp(close - 1, at_, tag) == 0) {
          at_ = close - 1 + tag;
          return out_.PutValue();
        }
      }
      at_ = end_;
      return out_.PutValue();
    }
    at = While(at, kWordPart);
    if (at == at_ + 1) {
      at_ = at;
      return out_.Put(kDollar);
    }
    const Byte from = at_;
    at_ = at;
    if (out_.AtExpression()) return out_.PutValue();
    PutName(from, at);
  }

  // Reads the word behind '@@': it is no keyword, unless a '.' follows.
  void ReadSystemVariable() {
    at_ = Next(at_, &in_code_comment_);
    if (at_ == end_ || !Is(*at_, kLetter)) return;
    const Byte word = at_, behind = BehindWord(word);
    const uint8_t next = At(behind);
    at_ = behind;
    if ((next == '\'' || next == '"') && ReadPrefixed(word, behind, next, false)) return;
    const sql_tokens::WordEntry* entry = FindWord(word, static_cast<size_t>(behind - word));
    at_ = Next(behind, &in_code_comment_);
    entry != nullptr && entry->code != kName&& At(at_) == '.' ? out_.Put(entry->code) : PutName(word, behind);
  }

  [[gnu::noinline]] void ReadAt() {
    const uint8_t next = At(at_, 1);
    if constexpr (kRules.has_at_operators) {
      if (next == '@') return Operator(2, kMatches);
      if (next == '>') return Operator(2, kContains);
    }
    if (next == '@') {
      at_ += 2;
      out_.Put(kSystemVariable);
      return kIsMysql || out_.full() ? void() : ReadSystemVariable();
    }
    if constexpr (kIsMysql) {  // '@' and a value: a name of a variable or a host, or the string or quoted name that follows
      at_ += 1;
      out_.Put(kHostSign);
      if (out_.full() || (!Is(next, kWordPart) && next != '.')) return;
      while (Is(At(at_), kWordPart) || At(at_) == '.') ++at_;
      return out_.PutValue();
    }
    if (Is(next, kWordPart) || next == '.') {
      do {
        at_ = While(at_ + 1, kWordPart);
      } while (At(at_) == '.');
      return out_.Put(kUserVariable);
    }
    if (next == '\'' || next == '"' || next == '`') {
      for (at_ = Behind(at_ + 2, next); At(at_) == next;) at_ = Behind(at_ + 1, next);
      return out_.Put(kUserVariable);
    }
    Operator(1, kAt);
  }

  [[gnu::noinline]] void ReadPercent() {
    const uint8_t next = At(at_, 1);
    if (next == '%') return Operator(2, kPercent);
    if (out_.AtExpression()) {  // a placeholder of Python's DB-API: %s, %(name)s
      Byte at = at_ + 1;
      if (next == '(') at = While(at + 1, kWordPart), at = At(at) == ')' ? at + 1 : at;
      if (At(at) == 's' && !Is(At(at, 1), kWordPart) && (next == 's' || *(at - 1) == ')')) {
        at_ = at + 1;
        return out_.PutValue();
      }
    }
    Operator(1, kPercent);
  }

  // ---- The rest ----

  void Operator(size_t length, uint16_t code) {
    at_ += length;
    out_.Put(code);
  }

  void ReadOther(uint8_t c, bool behind_string) {
    const uint8_t next = At(at_, 1);
    switch (c) {
      case '"':
        if (kRules.quotes_names) return ReadQuotedName(c);
        [[fallthrough]];
      case '\'':
        return ReadString(c, behind_string, false);
      case '`':
        return ReadQuotedName(c);
      case '#':
        return ReadHash(next);
      case ',':
        ++at_;
        return out_.PutSoft(kComma);
      case '(':
        ++at_;
        return out_.PutOpen(!kIsMysql);
      case ')':
        ++at_;
        return out_.PutClose();
      case ';':
        ++at_;
        return out_.PutSemicolon();
      case '.':
        if (!Is(next, kDigit) || (out_.last() == kName && name_end_ == at_)) return Operator(1, kDot);
        if (!kRules.names_begin_with_digits) return ReadNumber(at_, While(at_ + 1, kWordPart));
        at_ = Exponent(While(at_ + 1, kDigit));
        return out_.PutNumber();
      case '?':
        at_ = While(at_ + 1, kDigit);
        return out_.PutValue();
      case '@':
        return ReadAt();
      case '$':
        return ReadDollar();
      case '%':
        return ReadPercent();
      case '-':
        if (next == '>') return At(at_, 2) == '>' ? Operator(3, kLongArrow) : Operator(2, kArrow);
        do {  // the whole run: Skip has read past it
          ++at_;
          PutSign(kMinus);
        } while (!kIsMysql && At(at_) == '-' && !out_.full());
        return;
      case '+':
        ++at_;
        return PutSign(kPlus);
      case ':':
        if (next == '=') return Operator(2, kAssign);
        if (next == ':') return Operator(2, kCast);
        if (Is(next, kWordPart) && out_.AtExpression()) {  // a named parameter
          at_ = While(at_ + 1, kWordPart);
          return out_.PutValue();
        }
        return Operator(1, kColon);
      case '<':
        if (next == '=') return At(at_, 2) == '>' ? Operator(3, kNullSafeEqual) : Operator(2, kLessEqual);
        if (kRules.has_at_operators && next == '@') return Operator(2, kIsContained);
        return next == '>' ? Operator(2, kNotEqual) : next == '<' ? Operator(2, kShiftLeft) : Operator(1, kLess);
      case '>':
        return next == '=' ? Operator(2, kGreaterEqual) : next == '>' ? Operator(2, kShiftRight) : Operator(1, kGreater);
      case '=':
        return next == '>' ? Operator(2, kFatArrow) : next == '=' ? Operator(2, kDoubleEqual) : Operator(1, kEqual);
      case '!':
        return next == '=' ? Operator(2, kNotEqual) : Operator(1, kBang);
      case '|':
        return next == '|' ? Operator(2, kOrBars) : Operator(1, kBar);
      case '&':
        return next == '&' ? Operator(2, kAndAnd) : Operator(1, kAmpersand);
      case '*':
        return Operator(1, kStar);
      case '/':
        return Operator(1, kSlash);
      case '^':
        return Operator(1, kCaret);
      case '~':
        return Operator(1, kTilde);
      case '[':
        if (kRules.brackets_names) return ReadQuotedName(']');
        return Operator(1, kOpenBracket);
      case ']':
        return Operator(1, kCloseBracket);
      case '{':
        return Operator(1, kOpenBrace);
      case '}':
        return Operator(1, kCloseBrace);
      default:
        if (kIsMysql && next == 'N') {  // \N is NULL
          at_ += 2;
          return out_.PutValue();
        }
        return Operator(1, kBackslash);  // the only other possibility
    }
  }

  // Not in dialects in which it begins a comment: Skip has read past those.
  [[gnu::noinline]] void ReadHash(uint8_t next) {
    if (kRules.has_hash_names && (Is(next, kLetter) || next == '#')) {
      const Byte from = at_;
      at_ = BehindWord(next == '#' ? from + 2 : from + 1);
      return HasDigit(from, at_) ? out_.PutValue() : PutName(from, at_);
    }
    if (next == '>') return At(at_, 2) == '>' ? Operator(3, kHashLongArrow) : Operator(2, kHashArrow);
    next == '-' ? Operator(2, kHashMinus) : Operator(1, kHash);
  }

  static constexpr size_t kLongestTag = 66;  // with both '$'

  bool behind_string_ = false;
  bool knows_temporary_ = false;  // RunWithTemporary() runs
};

// Apart from the lexer of texts without a dialect, whose function stays small so.
[[gnu::noinline]] size_t TokensInDialect(std::string_view text, std::span<uint8_t> out, Dialect dialect, PathNames* names) {
  switch (dialect) {
    case Dialect::kMysql:
      return SqlLexer<kMysqlRules>(text, out).Run();
    case Dialect::kSqlite:
      return SqlLexer<kSqliteRules>(text, out).Run();
    case Dialect::kTsql:
      return SqlLexer<kTsqlRules>(text, out).Run();
    case Dialect::kOracle:
      return SqlLexer<kOracleRules>(text, out).Run();
    case Dialect::kHttp:
      return HttpTokens(text, names, out);
    case Dialect::kPython:
      return PythonTokens(text, out);
    default:
      return SqlLexer<kPostgresqlRules>(text, out).Run();
  }
}

}  // namespace

size_t DigestTokens(std::string_view sql, std::span<uint8_t> out, Dialect dialect, PathNames* names) {
  if (out.empty()) return 0;
  if (dialect != Dialect::kSql && dialect != Dialect::kRedis) return TokensInDialect(sql, out, dialect, names);
  return SqlLexer<kSqlRules>(sql, out).Run();
}

}  // namespace perfschema
