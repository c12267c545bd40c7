// base/sql_tokens.h: the tokens of normalized statements, their codes and their text.
//
// A token stream is a row of codes: one byte below 0x80, else two bytes with their highest bits set, seven bits in each. A name is followed
// by its length (a varint of at most three bytes) and its bytes; verbatim text by its bytes up to the end of the stream.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/sql_words.h"

namespace perfschema {

// X(identifier, shown, an expression may begin behind it)
#define PFS_FOR_EACH_SQL_TOKEN(X)            \
  X(kNothing, "", true)                      \
  X(kName, "", false)                        \
  X(kVerbatim, "", false)                    \
  X(kValue, "?", false)                      \
  X(kValues, "?, ...", false)                \
  X(kRowOfOne, "(?)", false)                 \
  X(kRowsOfOne, "(?) /* , ... */", false)    \
  X(kRowOfMany, "(...)", false)              \
  X(kRowsOfMany, "(...) /* , ... */", false) \
  X(kInList, "IN (...)", false)              \
  X(kUserVariable, "@?", false)              \
  X(kSystemVariable, "@@", false)            \
  X(kComma, ",", true)                       \
  X(kOpen, "(", true)                        \
  X(kClose, ")", false)                      \
  X(kDot, ".", false)                        \
  X(kSemicolon, ";", true)                   \
  X(kMinus, "-", true)                       \
  X(kPlus, "+", true)                        \
  X(kStar, "*", true)                        \
  X(kSlash, "/", true)                       \
  X(kPercent, "%", true)                     \
  X(kEqual, "=", true)                       \
  X(kLess, "<", true)                        \
  X(kGreater, ">", true)                     \
  X(kLessEqual, "<=", true)                  \
  X(kGreaterEqual, ">=", true)               \
  X(kNotEqual, "!=", true)                   \
  X(kNullSafeEqual, "<=>", true)             \
  X(kAssign, ":=", true)                     \
  X(kOrBars, "||", true)                     \
  X(kAndAnd, "&&", true)                     \
  X(kShiftLeft, "<<", true)                  \
  X(kShiftRight, ">>", true)                 \
  X(kArrow, "->", true)                      \
  X(kLongArrow, "->>", true)                 \
  X(kFatArrow, "=>", true)                   \
  X(kDoubleEqual, "==", true)                \
  X(kCast, "::", false)                      \
  X(kColon, ":", true)                       \
  X(kBar, "|", true)                         \
  X(kAmpersand, "&", true)                   \
  X(kCaret, "^", true)                       \
  X(kTilde, "~", true)                       \
  X(kBang, "!", true)                        \
  X(kAt, "@", false)                         \
  X(kDollar, "$", false)                     \
  X(kOpenBracket, "[", true)                 \
  X(kCloseBracket, "]", false)               \
  X(kOpenBrace, "{", false)                  \
  X(kCloseBrace, "}", false)                 \
  X(kBackslash, "\\", false)

enum SqlToken : uint16_t {
#define X(name, shown, starts) name,
  PFS_FOR_EACH_SQL_TOKEN(X)
#undef X
      kFirstSqlWord
};
static_assert(kFirstSqlWord + kShortSqlWordCount <= 0x80, "too many words with codes of one byte");
inline constexpr uint16_t kFirstLongSqlWord = 0x80;
inline constexpr uint16_t kSqlTokenCount = kFirstLongSqlWord + kSqlWordCount - kShortSqlWordCount;

constexpr uint16_t CodeOfSqlWord(size_t index) {
  return static_cast<uint16_t>(index < kShortSqlWordCount ? kFirstSqlWord + index : kFirstLongSqlWord + index - kShortSqlWordCount);
}

struct SqlTokenFacts {
  std::string_view shown;  // empty: no such code, or one whose text follows
  bool starts_expression;
};

namespace sql_tokens {

constexpr size_t FindWord(std::string_view text) {
  size_t i = 0;
  while (i < kSqlWordCount && SqlWordAt(i).text != text) ++i;
  return i;
}

constexpr auto MakeFacts() {
  std::array<SqlTokenFacts, kSqlTokenCount> facts{};
  uint16_t code = 0;
#define X(name, shown, starts) facts[code++] = {shown, starts};
  PFS_FOR_EACH_SQL_TOKEN(X)
#undef X
  for (size_t i = 0; i < kSqlWordCount; ++i) {
    facts[CodeOfSqlWord(i)] = {SqlWordAt(i).text, (SqlWordAt(i).traits & kBeforeExpression) != 0};
  }
  return facts;
}

// Finds words by a hash of their letters, open addressing. A word is compared as numbers: its letters in upper case, eight to a number.
inline constexpr size_t kLongestWord = 24;
struct WordKey {
  uint64_t parts[3];
  constexpr bool operator==(const WordKey&) const = default;
};
inline constexpr uint64_t kUpperCase = 0xdfdfdfdfdfdfdfdfu;  // letters to upper case; no other byte of a word becomes a letter
constexpr WordKey KeyOf(std::string_view word) {
  WordKey key{};
  for (size_t i = 0; i < word.size(); ++i) {
    const uint64_t byte = static_cast<unsigned char>(word[i]) & 0xdfu;
    key.parts[i / 8] |= byte << (std::endian::native == std::endian::little ? i % 8 * 8 : 56 - i % 8 * 8);
  }
  return key;
}
inline constexpr size_t kSlotBits = 11;
constexpr size_t SlotOf(const WordKey& key) {
  const uint64_t mixed = key.parts[0] * 0x9e3779b97f4a7c15u ^ std::rotl(key.parts[1] * 0xc2b2ae3d27d4eb4fu, 31) ^ key.parts[2];
  return static_cast<size_t>((mixed * 0x9e3779b97f4a7c15u) >> (64 - kSlotBits));
}

struct WordEntry {
  WordKey key;
  uint16_t code;  // of the word that it is shown as
  uint8_t traits;
};
struct WordTable {
  std::array<uint16_t, size_t{1} << kSlotBits> slots;  // number of the word + 1; 0 = free
  std::array<WordEntry, kSqlWordCount> words;
  bool good;  // every word is upper case, not too long and unique, and the word of which it is another spelling exists
};
constexpr WordTable MakeWords() {
  WordTable table{};
  table.good = true;
  for (size_t i = 0; i < kSqlWordCount; ++i) {
    const SqlWord& word = SqlWordAt(i);
    const size_t shown = word.shown.empty() ? i : FindWord(word.shown);
    table.good &= !word.text.empty() && word.text.size() <= kLongestWord && shown < kSqlWordCount;
    for (const char c : word.text) table.good &= (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    table.words[i] = {KeyOf(word.text), CodeOfSqlWord(shown), word.traits};
    size_t slot = SlotOf(table.words[i].key);
    for (; table.slots[slot] != 0; slot = (slot + 1) % table.slots.size()) {
      table.good &= !(table.words[table.slots[slot] - 1u].key == table.words[i].key);
    }
    table.slots[slot] = static_cast<uint16_t>(i + 1);
  }
  return table;
}

}  // namespace sql_tokens

}  // namespace perfschema
