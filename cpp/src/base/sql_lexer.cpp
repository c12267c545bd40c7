// base/sql_lexer.cpp: reads SQL of any dialect, and any other bytes, token by token.
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstring>

#include "base/digest.h"
#include "base/sql_reducer.h"
#include "base/sql_tokens.h"

namespace perfschema {

namespace {

constexpr uint8_t kBlank = 1, kDigit = 2, kLetter = 4, kDollarSign = 8, kHexDigit = 16, kInString = 32, kBinaryDigit = 64,
                  kMayBeComment = 128;
constexpr uint8_t kWordPart = kDigit | kLetter | kDollarSign;

constexpr auto MakeClasses() {
  std::array<uint8_t, 256> classes{};
  for (int c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80, digit = c >= '0' && c <= '9';
    const bool hex = digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    const bool comment = c == '#' || c == '-' || c == '/' || c == '*', string = c != '\'' && c != '"' && c != '\\';
    classes[static_cast<size_t>(c)] = static_cast<uint8_t>(
        (c <= ' ' || c == 0x7f ? kBlank : 0) | (digit ? kDigit : 0) | (letter ? kLetter : 0) | (c == '$' ? kDollarSign : 0) |
        (hex ? kHexDigit : 0) | (string ? kInString : 0) | (c == '0' || c == '1' ? kBinaryDigit : 0) | (comment ? kMayBeComment : 0));
  }
  return classes;
}
constexpr auto kClasses = MakeClasses();
constexpr auto kWords = sql_tokens::MakeWords(), kWordsOfMysql = sql_tokens::MakeMysqlWords();
static_assert(kWords.good && kWordsOfMysql.good);

using Byte = const uint8_t*;

bool Is(uint8_t byte, uint8_t classes) { return (kClasses[byte] & classes) != 0; }

// Reads by the rules of MySQL, or by those that all dialects share.
// Threads: external lock.
template <bool kIsMysql>
class SqlLexer {
 public:
  SqlLexer(std::string_view sql, std::span<uint8_t> out) : at_(reinterpret_cast<Byte>(sql.data())), end_(at_ + sql.size()), out_(out) {}

  // Is flattened into one function: a third faster than with calls.
  [[gnu::flatten]] size_t Run() {
    while (!out_.full()) {
      at_ = Next(at_, &in_code_comment_);
      if (at_ == end_) break;
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
    return out_.Finish();
  }

 private:
  uint8_t At(Byte at, size_t offset = 0) const {
    return static_cast<size_t>(end_ - at) > offset ? at[offset] : uint8_t{0};
  }  // 0 behind the end
  Byte While(Byte at, uint8_t classes) const {
    while (at != end_ && Is(*at, classes)) ++at;
    return at;
  }
  // Returns the end of a word whose first byte is at `at`. Reads sixteen bytes at a time if possible: the end of a loop would be
  // mispredicted.
  Byte BehindWord(Byte at) const {
#ifdef __SSE2__
    for (; end_ - at >= 16; at += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
      const auto within = [](__m128i x, char from, char count) {  // from <= x < from + count, as unsigned bytes
        return _mm_cmpeq_epi8(_mm_subs_epu8(_mm_sub_epi8(x, _mm_set1_epi8(from)), _mm_set1_epi8(static_cast<char>(count - 1))),
                              _mm_setzero_si128());
      };
      const __m128i letters = within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26), digits = within(bytes, '0', 10);
      const __m128i others = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('_')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('$')));
      const int parts = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letters, digits), _mm_or_si128(others, bytes)));
      if (parts != 0xffff) return at + std::countr_one(static_cast<unsigned>(parts));
    }
#endif
    return While(at, kWordPart);
  }
  // Returns the place behind the next `byte`, or the end.
  Byte Behind(Byte at, uint8_t byte) const {
    const void* found = at == end_ ? nullptr : std::memchr(at, byte, static_cast<size_t>(end_ - at));
    return found == nullptr ? end_ : static_cast<Byte>(found) + 1;
  }

  // Returns the next token. Most often there is one blank before it, or none.
  Byte Next(Byte at, bool* in_code_comment) const {
    if (at != end_ && *at == ' ') ++at;
    return at == end_ || !Is(*at, kBlank | kMayBeComment) ? at : Skip(at, in_code_comment);
  }

  // Returns the place behind blanks and comments. The text inside /*! */ is code, not a comment.
  [[gnu::noinline]] Byte Skip(Byte at, bool* in_code_comment) const {
    for (;;) {
      at = While(at, kBlank);
      if (at == end_ || !Is(*at, kMayBeComment)) return at;
      switch (*at) {
        case '#':
          at = Behind(at, '\n');
          continue;
        case '-':
          if (!BeginsComment(at)) return at;
          at = Behind(at, '\n');
          continue;
        case '/':
          if (At(at, 1) != '*') return at;
          at += 2;
          if (At(at) == '!') {
            *in_code_comment = true;
            at = While(at + 1, kDigit);  // of the version that understands it
          } else {
            for (at = Behind(at, '*'); at != end_ && *at != '/';) at = Behind(at, '*');
            if (at != end_) ++at;
          }
          continue;
        case '*':
          if (!*in_code_comment || At(at, 1) != '/') return at;
          *in_code_comment = false;
          at += 2;
          continue;
        default:
          return at;
      }
    }
  }

  // Two or more '-' begin a comment, unless an operand follows: `1--1` and `---1` are numbers. (Letters: SQLite and PostgreSQL need no
  // blank.) MySQL needs a blank behind two '-'.
  bool BeginsComment(Byte at) const {
    if (At(at, 1) != '-') return false;
    if constexpr (kIsMysql) return end_ - at == 2 || Is(at[2], kBlank);
    while (at != end_ && *at == '-') ++at;
    constexpr std::string_view kOperands = "0123456789.'\"`(@?:$+!~";
    return at == end_ || kOperands.find(static_cast<char>(*at)) == std::string_view::npos;
  }

  // ---- Words ----

  static const sql_tokens::WordEntry* Find(const sql_tokens::WordKey& key) {
    constexpr const sql_tokens::WordTable& words = kIsMysql ? kWordsOfMysql : kWords;
    for (size_t slot = sql_tokens::SlotOf(key); words.slots[slot] != 0; slot = (slot + 1) % words.slots.size()) {
      const sql_tokens::WordEntry& entry = words.words[words.slots[slot] - 1u];
      if (entry.key == key) return &entry;
    }
    return nullptr;
  }
  const sql_tokens::WordEntry* FindWord(Byte word, size_t length) const {
    if (length > sql_tokens::kLongestWord) return nullptr;
    sql_tokens::WordKey key{};
    if (length <= 8 && end_ - word >= 8 && std::endian::native == std::endian::little) {
      std::memcpy(&key.parts[0], word, 8);
      key.parts[0] &= (~uint64_t{0} >> (64 - 8 * length)) & sql_tokens::kUpperCase;
      return Find(key);
    }
    std::memcpy(&key, word, length);
    for (uint64_t& part : key.parts) part &= sql_tokens::kUpperCase;
    return Find(key);
  }

  void ReadWord(bool behind_string) {
    const Byte word = at_, behind = BehindWord(word);
    const uint16_t last = out_.last();
    at_ = behind;
    if constexpr (kIsMysql) return ReadMysqlWord(word, behind);
    if (last == kDot) return PutName(word, behind);
    const uint8_t next = At(behind);
    if (next == '\'' || next == '"') {
      const uint8_t letter = *word & 0xdfu;
      if (next == '\'' && behind - word == 1 && (letter == 'N' || letter == 'X' || letter == 'B' || letter == 'E')) {
        return ReadString(next, behind_string, letter == 'X' || letter == 'B');
      }
      if (*word == '_') return ReadString(next, behind_string, false);  // a character set in front of its string
    }
    const sql_tokens::WordEntry* entry = FindWord(word, static_cast<size_t>(behind - word));
    if (entry == nullptr) return PutName(word, behind);
    at_ = Next(behind, &in_code_comment_);
    if (last == kSystemVariable) return At(at_) == '.' ? out_.Put(entry->code) : PutName(word, behind);
    if (At(at_) == '.' && Qualifies(behind)) return PutName(word, behind);
    if ((entry->traits & kOnlyCalled) != 0 && At(at_) != '(') return PutName(word, behind);
    if (entry->code == sql_tokens::kInWord) return out_.PutSoft(entry->code);
    if (entry->code == sql_tokens::kNullWord && out_.AtExpression() && last != sql_tokens::kNotWord && last != sql_tokens::kIsWord) {
      return out_.PutValue();
    }
    out_.Put(entry->code);
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

  // Returns whether the '.' at at_, behind a word that ends at `word_end`, makes the word a name. (`SELECT .5` has a number.)
  bool Qualifies(Byte word_end) const {
    if (Is(At(at_, 1), kDigit)) return at_ == word_end;
    bool in_code_comment = in_code_comment_;
    const Byte next = Skip(at_ + 1, &in_code_comment);
    return next != end_ && (Is(*next, kLetter) || *next == '`' || *next == '"' || *next == '*');
  }

  void PutName(Byte from, Byte to) {
    name_end_ = to;
    out_.PutName(from, static_cast<size_t>(to - from), static_cast<size_t>(end_ - from));
  }

  // ---- Literals ----

  // Returns the place behind a run of digits and an exponent.
  Byte Exponent(Byte at) const {
    if ((At(at) | 0x20) != 'e') return at;
    const size_t sign = At(at, 1) == '-' || At(at, 1) == '+' ? 1 : 0;
    return Is(At(at, 1 + sign), kDigit) ? While(at + 1 + sign, kDigit) : at;
  }

  // Names may begin with digits, too.
  void ReadNumberOrName() {
    const Byte from = at_, word_end = While(from, kWordPart);
    at_ = word_end;
    if (out_.last() == kDot) return PutName(from, word_end);
    const uint8_t base = At(from, 1) | 0x20;
    if (*from == '0' && base == 'x' && word_end - from > 2 && While(from + 2, kHexDigit) == word_end) return out_.PutNumber();
    if (*from == '0' && base == 'b' && word_end - from > 2 && While(from + 2, kBinaryDigit) == word_end) return out_.PutNumber();
    const Byte digits = While(from, kDigit);
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
  void ReadString(uint8_t quote, bool behind_string, bool is_number) {
    const Byte from = at_;
    Byte at = from + 1;
    for (;;) {
      at = While(at, kInString);
      if (at == end_) break;
      if (*at == '\\') {
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
    if (!kIsMysql && quote == '"' && *from == quote) {  // next to a '.' it is a name
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

  [[gnu::noinline]] void ReadQuotedName() {
    Byte at = at_ + 1;
    const Byte from = at;
    for (; at != end_; ++at) {
      if (*at != '`') continue;
      if (At(at, 1) != '`') break;
      ++at;
    }
    at_ = at == end_ ? end_ : at + 1;
    out_.PutName(from, static_cast<size_t>(at - from), static_cast<size_t>(end_ - from));
    name_end_ = at_;
  }

  // $1, $$text$$, $tag$text$tag$, $name
  [[gnu::noinline]] void ReadDollar() {
    Byte at = at_ + 1;
    if (Is(At(at), kDigit)) {
      at_ = While(at, kDigit);
      return out_.PutValue();
    }
    at = While(at, kLetter | kDigit);
    const size_t tag = static_cast<size_t>(at - at_) + 1;
    if (At(at) == '$' && tag <= kLongestTag) {
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

  [[gnu::noinline]] void ReadAt() {
    const uint8_t next = At(at_, 1);
    if (next == '@') {
      at_ += 2;
      return out_.Put(kSystemVariable);
    }
    if constexpr (kIsMysql) {  // '@' and a value: a name of a variable or a host, or the string or quoted name that follows
      at_ += 1;
      out_.Put(kHostSign);
      if (!Is(next, kWordPart) && next != '.') return;
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

  void PutSign(uint16_t code) { out_.PutSign(code, kIsMysql ? sql_tokens::kFacts[out_.last()].before_number : out_.AtExpression()); }
  void Operator(size_t length, uint16_t code) {
    at_ += length;
    out_.Put(code);
  }

  void ReadOther(uint8_t c, bool behind_string) {
    const uint8_t next = At(at_, 1);
    switch (c) {
      case '\'':
      case '"':
        return ReadString(c, behind_string, false);
      case '`':
        return ReadQuotedName();
      case ',':
        ++at_;
        return out_.PutSoft(kComma);
      case '(':
        ++at_;
        return out_.PutSoft(kOpen);
      case ')':
        ++at_;
        return out_.PutClose();
      case ';':
        ++at_;
        return out_.PutSemicolon();
      case '.':
        if (!Is(next, kDigit) || (out_.last() == kName && name_end_ == at_)) return Operator(1, kDot);
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

  static constexpr size_t kLongestTag = 66;  // with both '$'

  Byte at_;
  const Byte end_;
  SqlReducer out_;
  Byte name_end_ = nullptr;
  bool behind_string_ = false;
  bool in_code_comment_ = false;
};

}  // namespace

size_t DigestTokens(std::string_view sql, std::span<uint8_t> out) { return out.empty() ? 0 : SqlLexer<false>(sql, out).Run(); }
size_t MysqlDigestTokens(std::string_view sql, std::span<uint8_t> out) { return out.empty() ? 0 : SqlLexer<true>(sql, out).Run(); }

}  // namespace perfschema
