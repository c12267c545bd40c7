// base/sql_scanner.h: finds the ends of words, quotes and comments in a statement, by the rules of a dialect.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/sql_dialect.h"
#include "base/sql_tokens.h"

namespace perfschema {

namespace sql_bytes {
inline constexpr uint8_t kBlank = 1, kDigit = 2, kLetter = 4, kDollarSign = 8, kHexDigit = 16, kInString = 32, kBinaryDigit = 64,
                         kMayBeComment = 128;
inline constexpr uint8_t kWordPart = kDigit | kLetter | kDollarSign;

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
inline constexpr auto kClasses = MakeClasses();
inline constexpr auto kWords = sql_tokens::MakeWords(), kWordsOfMysql = sql_tokens::MakeMysqlWords();
static_assert(kWords.good && kWordsOfMysql.good);

using Byte = const uint8_t*;

inline bool Is(uint8_t byte, uint8_t classes) { return (kClasses[byte] & classes) != 0; }
}  // namespace sql_bytes

// Knows a statement's bytes, and no place in it.
// Threads: immutable.
template <const SqlRules& kRules>
class SqlScanner {
 protected:
  using Byte = sql_bytes::Byte;
  static constexpr bool kIsMysql = kRules.is_mysql, kIsPostgres = kRules.backslash == Backslash::kEscapesAfterE;

  explicit SqlScanner(Byte end) : end_(end) {}

  uint8_t At(Byte at, size_t offset = 0) const {
    return static_cast<size_t>(end_ - at) > offset ? at[offset] : uint8_t{0};
  }  // 0 behind the end
  Byte While(Byte at, uint8_t classes) const {
    while (at != end_ && sql_bytes::Is(*at, classes)) ++at;
    return at;
  }
  // Returns the end of a word whose first byte is at `at`. Reads sixteen bytes at a time if possible: the end of a loop would be
  // mispredicted.
  Byte BehindWord(Byte at) const {
#ifdef __SSE2__
    if constexpr (kRules.has_hash_names) {
      for (at = While(at, sql_bytes::kWordPart); At(at) == '#'; at = While(at, sql_bytes::kWordPart)) ++at;
      return at;
    }
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
    return While(at, sql_bytes::kWordPart);
  }
  // Returns the place behind the next `byte`, or the end.
  Byte Behind(Byte at, uint8_t byte) const {
    const void* found = at == end_ ? nullptr : std::memchr(at, byte, static_cast<size_t>(end_ - at));
    return found == nullptr ? end_ : static_cast<Byte>(found) + 1;
  }

  // Returns the next token. Most often there is one blank before it, or none.
  Byte Next(Byte at, bool* in_code_comment) const {
    if (at != end_ && *at == ' ') ++at;
    return at == end_ || !sql_bytes::Is(*at, sql_bytes::kBlank | sql_bytes::kMayBeComment) ? at : Skip(at, in_code_comment);
  }

  // Returns the place behind blanks and comments. The text inside /*! */ is code, not a comment.
  [[gnu::noinline]] Byte Skip(Byte at, bool* in_code_comment) const {
    for (;;) {
      at = While(at, sql_bytes::kBlank);
      if (at == end_ || !sql_bytes::Is(*at, sql_bytes::kMayBeComment)) return at;
      switch (*at) {
        case '#':
          if (!kRules.has_hash_comments) return at;
          at = Behind(at, '\n');
          continue;
        case '-':
          if (!BeginsComment(at)) return at;
          at = Behind(at, '\n');
          continue;
        case '/':
          if (At(at, 1) != '*') return at;
          at += 2;
          if (kRules.has_code_comments && At(at) == '!') {
            *in_code_comment = true;
            at = While(at + 1, sql_bytes::kDigit);  // of the version that understands it
          } else if (kRules.nests_comments) {
            at = BehindNested(at);
          } else {
            for (at = Behind(at, '*'); at != end_ && *at != '/';) at = Behind(at, '*');
            if (at != end_) ++at;
          }
          continue;
        case '*':
          if (!kRules.has_code_comments || !*in_code_comment || At(at, 1) != '/') return at;
          *in_code_comment = false;
          at += 2;
          continue;
        default:
          return at;
      }
    }
  }

  // Returns the place behind the end of a comment whose begin ends at `at`, and of the comments in it.
  Byte BehindNested(Byte at) const {
    for (size_t depth = 1; at != end_ && depth > 0;) {
      if (*at == '*' && At(at, 1) == '/') {
        --depth;
        at += 2;
      } else if (*at == '/' && At(at, 1) == '*') {
        ++depth;
        at += 2;
      } else {
        ++at;
      }
    }
    return at;
  }

  // Two '-' begin a comment. MySQL needs a blank behind them. In a dialect that is not known, an operand behind them must not follow:
  // `1--1` and `---1` are numbers.
  bool BeginsComment(Byte at) const {
    if (At(at, 1) != '-') return false;
    if constexpr (kRules.dashes == Dashes::kComment) return true;
    if constexpr (kRules.dashes == Dashes::kCommentBeforeBlank) return end_ - at == 2 || sql_bytes::Is(at[2], sql_bytes::kBlank);
    while (at != end_ && *at == '-') ++at;
    constexpr std::string_view kOperands = "0123456789.'\"`(@?:$+!~";
    return at == end_ || kOperands.find(static_cast<char>(*at)) == std::string_view::npos;
  }

  // Returns the place behind a run of digits and an exponent.
  Byte Exponent(Byte at) const {
    if ((At(at) | 0x20) != 'e') return at;
    const size_t sign = At(at, 1) == '-' || At(at, 1) == '+' ? 1 : 0;
    return sql_bytes::Is(At(at, 1 + sign), sql_bytes::kDigit) ? While(at + 1 + sign, sql_bytes::kDigit) : at;
  }

  // ---- Words ----

  static const sql_tokens::WordEntry* Find(const sql_tokens::WordKey& key) {
    constexpr const sql_tokens::WordTable& words = kIsMysql ? sql_bytes::kWordsOfMysql : sql_bytes::kWords;
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

  // Returns the place behind the closing quote, or the end. Two quotes are one.
  Byte BehindQuoted(Byte at, uint8_t close) const {
    for (at = Behind(at, close); At(at) == close; at = Behind(at + 1, close)) {
    }
    return at;
  }

  const Byte end_;
};

}  // namespace perfschema
