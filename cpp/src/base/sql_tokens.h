// base/sql_tokens.h: the tokens of normalized statements, their codes and their text.
//
// A token stream is a row of codes: one byte below 0x80, else two bytes with their highest bits set, seven bits in each. A name is followed
// by its length (a varint of at most three bytes) and its bytes; verbatim text by its bytes up to the end of the stream.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/mysql_words.h"
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

// Tokens that only MySQL's digests have. They come behind the words that all dialects share, up to kFirstMysqlToken; a new shared word
// changes them, so that only digests by the rules of MySQL change.
inline constexpr uint16_t kFirstMysqlToken = kFirstLongSqlWord + kSqlWordCount - kShortSqlWordCount;
enum MysqlToken : uint16_t {
  kCharset = kFirstMysqlToken,  // a character set in front of a string
  kHostSign,                    // '@' in front of a name: no blank follows
  kFirstMysqlWord
};
inline constexpr size_t kAllWordCount = kSqlWordCount + kMysqlWordCount;

// Operators of PostgreSQL. They come last, so that they change no other code.
#define PFS_FOR_EACH_LATE_TOKEN(X) \
  X(kHash, "#")                    \
  X(kHashArrow, "#>")              \
  X(kHashLongArrow, "#>>")         \
  X(kHashMinus, "#-")              \
  X(kMatches, "@@")                \
  X(kContains, "@>")               \
  X(kIsContained, "<@")
enum LateToken : uint16_t {
  kBeforeLateTokens = kFirstMysqlWord + kMysqlWordCount - 1,
#define X(name, shown) name,
  PFS_FOR_EACH_LATE_TOKEN(X)
#undef X
      kSqlTokenCount
};

// Both take the place of a word among those that all dialects share, followed by those of MySQL.
constexpr uint16_t CodeOfSqlWord(size_t index) {
  return static_cast<uint16_t>(index < kShortSqlWordCount ? kFirstSqlWord + index
                               : index < kSqlWordCount    ? kFirstLongSqlWord + index - kShortSqlWordCount
                                                          : kFirstMysqlWord + index - kSqlWordCount);
}
constexpr std::string_view TextOfSqlWord(size_t index) {
  return index < kSqlWordCount ? SqlWordAt(index).text : kMysqlWords[index - kSqlWordCount];
}

// Holds no pointer: a thousand of them would be relocated at each start of a program.
struct SqlTokenTraits {
  uint16_t begin;  // of the text, in Traits::texts
  uint8_t length;  // 0: no such code, or one whose text follows
  bool starts_expression : 1;
  bool before_number : 1;  // by the rules of MySQL
  bool is_before_row : 1;  // a '(' behind it may begin a row of values
};

namespace sql_tokens {

constexpr size_t FindWord(std::string_view text) {
  size_t i = 0;
  while (i < kAllWordCount && TextOfSqlWord(i) != text) ++i;
  return i;
}

template <size_t N>
constexpr bool IsAmong(const std::string_view (&texts)[N], std::string_view text) {
  for (const std::string_view& each : texts) {
    if (each == text) return true;
  }
  return false;
}

// Calls `add` with the code, the text and starts_expression of each token.
template <typename Add>
constexpr void VisitTokens(Add add) {
  uint16_t code = 0;
#define X(name, shown, starts) add(code++, std::string_view(shown), starts);
  PFS_FOR_EACH_SQL_TOKEN(X)
#undef X
  for (size_t i = 0; i < kAllWordCount; ++i) {
    const bool starts = i < kSqlWordCount && (SqlWordAt(i).traits & kBeforeExpression) != 0;
    add(CodeOfSqlWord(i), TextOfSqlWord(i), starts);
  }
  add(kCharset, "(_charset)", false);
  add(kHostSign, "@", false);
#define X(name, shown) add(name, std::string_view(shown), true);
  PFS_FOR_EACH_LATE_TOKEN(X)
#undef X
}

constexpr size_t BytesOfTokens() {
  size_t bytes = 0;
  VisitTokens([&](uint16_t, std::string_view text, bool) { bytes += text.size(); });
  return bytes;
}
static_assert(BytesOfTokens() < 65536);

struct Traits {
  std::array<SqlTokenTraits, kSqlTokenCount> of{};
  std::array<char, BytesOfTokens()> texts{};

  constexpr const SqlTokenTraits& operator[](size_t code) const { return of[code]; }
  constexpr std::string_view TextOf(uint16_t code) const { return {texts.data() + of[code].begin, of[code].length}; }
};

constexpr Traits MakeTraits() {
  Traits traits;
  uint16_t begin = 0;
  VisitTokens([&](uint16_t code, std::string_view text, bool starts) {
    traits.of[code] = {begin, static_cast<uint8_t>(text.size()), starts, IsAmong(kMysqlBeforeNumber, text),
                       text == "IN" || text == "VALUES" || text == ","};
    for (const char c : text) traits.texts[begin++] = c;
  });
  return traits;
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
  std::array<WordEntry, kAllWordCount> words;
  bool good;  // every word is upper case, not too long and unique, and every word that a list names exists

  // Returns the slot of the word, or the free one where it belongs.
  constexpr size_t Find(const WordKey& key) const {
    size_t slot = SlotOf(key);
    while (slots[slot] != 0 && !(words[slots[slot] - 1u].key == key)) slot = (slot + 1) % slots.size();
    return slot;
  }
  // Returns the number of the word; counts one that is unknown as a fault.
  constexpr size_t IndexOf(std::string_view text) {
    const size_t slot = Find(KeyOf(text));
    good &= slots[slot] != 0;
    return slots[slot] == 0 ? 0 : slots[slot] - 1u;
  }
  constexpr void Add(std::string_view text, size_t index, uint16_t code, uint8_t traits) {
    good &= !text.empty() && text.size() <= kLongestWord;
    for (const char c : text) good &= (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    words[index] = {KeyOf(text), code, traits};
    const size_t slot = Find(words[index].key);
    good &= slots[slot] == 0;
    slots[slot] = static_cast<uint16_t>(index + 1);
  }
};
constexpr WordTable MakeWords() {
  WordTable table{};
  table.good = true;
  for (size_t i = 0; i < kSqlWordCount; ++i) table.Add(SqlWordAt(i).text, i, CodeOfSqlWord(i), SqlWordAt(i).traits);
  table.Add("MOVE", kSqlWordCount, kName, kBeforePassingName);                            // no keyword, but cursors have it as FETCH
  table.Add("PG_TEMP", kSqlWordCount + 1, kName, kBeforePassingName | kTemporarySchema);  // a schema of PostgreSQL
  for (size_t i = 0; i < kSqlWordCount; ++i) {
    if (!SqlWordAt(i).shown.empty()) table.words[i].code = CodeOfSqlWord(table.IndexOf(SqlWordAt(i).shown));
  }
  return table;
}
// Every word, whichever dialect has it.
constexpr WordTable MakeAllWords() {
  WordTable table{};
  table.good = true;
  for (size_t i = 0; i < kAllWordCount; ++i) table.Add(TextOfSqlWord(i), i, CodeOfSqlWord(i), kPlainWord);
  return table;
}
// A compiler limits the steps of one constant: the lists are looked up in a table, and each table is a constant of its own.
inline constexpr WordTable kEveryWord = MakeAllWords();
constexpr WordTable MakeMysqlWords() {
  WordTable every = kEveryWord, table{};
  for (const Spelling& each : kMysqlSpellings) every.words[every.IndexOf(each.text)].code = CodeOfSqlWord(every.IndexOf(each.shown));
  for (const std::string_view each : kMysqlFunctions) every.words[every.IndexOf(each)].traits = kOnlyCalled;
  std::array<bool, kAllWordCount> is_left_out{};
  for (const std::string_view each : kNotOfMysql) is_left_out[every.IndexOf(each)] = true;
  table.good = every.good;
  for (size_t i = 0; i < kAllWordCount; ++i) {
    if (!is_left_out[i]) table.Add(TextOfSqlWord(i), i, every.words[i].code, every.words[i].traits);
  }
  return table;
}

}  // namespace sql_tokens

}  // namespace perfschema
