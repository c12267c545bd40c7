// base/text_rules.h: regular expressions that a user declares at start, to say which texts are equal although they are no SQL.
//
// Libraries of regular expressions allocate, lock or run in more than linear time while they search; a probe may not. So patterns are
// compiled at start into tables of states (DFA): a search does one lookup per byte.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sql_dialect.h"
#include "base/status.h"
#include "perfschema/abi.h"

namespace perfschema {

class PathNames;

// Is one pattern and the replacement of its matches: the leftmost match first, and the longest of these. A pattern has: literals, . [abc]
// [^a-z] \d \w \s \D \W \S \t \n \r \xHH, ( ) (?: ) | * + ? {m} {m,} {m,n}; at its start ^ or \b, at its end $ or \b. Bytes from 0x80 on
// belong to words; a dot or a class takes all bytes of a UTF-8 character. It must not match the empty text.
// Threads: immutable once compiled.
class TextRule {
 public:
  // Compiles a pattern. kInvalidArgument says what is wrong with it.
  static Status Compile(std::string_view pattern, std::string replacement, TextRule* rule);

  // Copies `in` with the replacements, cut to the capacity of `out`. Returns its bytes. Takes at most 16 steps per byte: the rest of a
  // text that would need more is copied as it is. For probes: no allocation.
  size_t Apply(std::string_view in, std::span<char> out) const;

 private:
  friend class RuleCompiler;
  enum class Edge : uint8_t { kAny, kText, kWord };
  static bool IsEdge(Edge edge, std::string_view text, size_t at, size_t border);

  std::array<uint8_t, 256> classes_{};  // class of each byte; states treat bytes of a class alike
  size_t class_count_ = 0;
  std::vector<uint16_t> next_;    // state * class_count_ + class -> state; 0 = no match, 1 = start
  std::vector<uint8_t> accepts_;  // by state
  Edge begin_ = Edge::kAny, end_ = Edge::kAny;
  std::string replacement_;
};

// Turns a text into a stream of tokens (base/digest.h): chosen once, at start.
// Threads: immutable once made.
class Normalizer {
 public:
  static constexpr size_t kWindow = 4096;  // bytes of a text that rules read

  Normalizer() = default;  // "sql"
  // Makes a normalizer. `name`: a dialect, which is that of the texts that have none themselves; identity (every text as it is) or regex:
  // the `rules` one after the other, each applied to the result of the previous one. `rules`: "pattern -> replacement", blanks around both
  // dropped, separated by ';' or the end of a line; "\;" stands for ';'.
  PFS_API static Status Make(std::string_view name, std::string_view rules, Normalizer* made);

  // For probes. Rules need 2 * kWindow bytes of the stack.
  PFS_API size_t Tokens(std::string_view text, Dialect dialect, std::span<uint8_t> out, PathNames* names = nullptr) const;
  // Returns whether literals may stay in the tokens.
  bool keeps_literals() const { return kind_ == Kind::kIdentity || kind_ == Kind::kRegex; }

 private:
  enum class Kind : uint8_t { kDialect, kIdentity, kRegex };
  size_t ApplyRules(std::string_view text, std::span<uint8_t> out) const;

  Kind kind_ = Kind::kDialect;
  Dialect dialect_ = Dialect::kSql;
  std::vector<TextRule> rules_;
};

}  // namespace perfschema
