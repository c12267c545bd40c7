// base/text_rules.h: regular expressions that a user declares at start, to say which texts are the same although they are no SQL.
//
// Libraries of regular expressions allocate, lock or run in more than linear time while they search; a probe may not. So patterns are compiled at
// start into tables of states (DFA): a search is one look-up a byte.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "perfschema/abi.h"

namespace perfschema {

// One pattern and what takes the place of its matches: the leftmost first, of these the longest.
// A pattern has: literals, . [abc] [^a-z] \d \w \s \D \W \S \t \n \r \xHH, ( ) (?: ) | * + ? {m} {m,} {m,n}; at its start ^ or \b, at its
// end $ or \b. Bytes from 0x80 on belong to words; a dot or a class takes all bytes of a UTF-8 character. It must not match the empty text.
// Threads: immutable once compiled.
class TextRule {
 public:
  // kInvalidArgument says what is wrong with the pattern.
  static Status Compile(std::string_view pattern, std::string replacement, TextRule* rule);

  // `in` with the replacements, cut to the room in `out`. Returns its bytes. Takes at most 16 steps for a byte: what is left of a text that would
  // need more is copied as it is. For probes: no allocation.
  size_t Apply(std::string_view in, std::span<char> out) const;

 private:
  friend class RuleCompiler;
  enum class Edge : uint8_t { kAny, kText, kWord };
  static bool IsEdge(Edge edge, std::string_view text, size_t at, size_t border);

  std::array<uint8_t, 256> classes_{};  // of bytes that no state tells apart
  size_t class_count_ = 0;
  std::vector<uint16_t> next_;  // state * class_count_ + class -> state; 0 = no match, 1 = start
  std::vector<uint8_t> accepts_;  // by state
  Edge begin_ = Edge::kAny, end_ = Edge::kAny;
  std::string replacement_;
};

// What makes a stream of tokens of a text (base/digest.h): chosen once, at start.
// Threads: immutable once made.
class Normalizer {
 public:
  static constexpr size_t kWindow = 4096;  // bytes of a text that rules look at

  Normalizer() = default;  // "sql"
  // `name`: sql, identity (the text as it is) or regex: the `rules` one after the other, each on what the one before has made.
  // `rules`: "pattern -> replacement", blanks around both dropped, separated by ';' or the end of a line; "\;" stands for ';'.
  PFS_API static Status Make(std::string_view name, std::string_view rules, Normalizer* made);

  // For probes. Rules need 2 * kWindow bytes of the stack.
  PFS_API size_t Tokens(std::string_view text, std::span<uint8_t> out) const;

 private:
  enum class Kind : uint8_t { kSql, kIdentity, kRegex };
  size_t ApplyRules(std::string_view text, std::span<uint8_t> out) const;

  Kind kind_ = Kind::kSql;
  std::vector<TextRule> rules_;
};

}  // namespace perfschema
