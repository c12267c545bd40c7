// base/sql_reducer.h: the stack of tokens on which lists and rows of literals are folded while a statement is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/sql_tokens.h"

namespace perfschema {

namespace sql_tokens {
inline constexpr auto kFacts = MakeFacts();
inline constexpr uint16_t kInWord = CodeOfSqlWord(FindWord("IN")), kNullWord = CodeOfSqlWord(FindWord("NULL")),
                          kNotWord = CodeOfSqlWord(FindWord("NOT")), kIsWord = CodeOfSqlWord(FindWord("IS"));
}  // namespace sql_tokens

// The stream is in `out`, as if `out` had no end: `size_` goes on counting behind it, where nothing is stored. So a fold there ends as it
// would in a larger buffer, and the result is the beginning of the one whole stream. Only tokens of one byte are ever folded, at most
// five at a time and a run of signs: the last eight tokens, in a register, are all that the reducer has to know.
// Threads: external lock.
class SqlReducer {
 public:
  explicit SqlReducer(std::span<uint8_t> out) : out_(out.data()), limit_(out.size()) {}

  bool full() const { return full_; }  // no later token can change the contents of `out`
  uint16_t last() const { return last_; }
  bool AtExpression() const { return sql_tokens::kFacts[last_].starts_expression; }

  // Adds a token that stays as it is.
  void Put(uint16_t code) {
    EndSigns();
    const size_t bytes = code < 0x80 ? 1 : 2;
    if (size_ + bytes > limit_) {
      full_ = true;
      return;
    }
    if (bytes == 1) {
      out_[size_] = static_cast<uint8_t>(code);
    } else {
      out_[size_] = static_cast<uint8_t>(0x80 | code >> 7);
      out_[size_ + 1] = static_cast<uint8_t>(0x80 | (code & 0x7f));
    }
    size_ += bytes;
    Remember(code);
  }

  // Adds a token that may be folded with others: ',', '(', IN.
  void PutSoft(uint16_t code) {
    EndSigns();
    Push(code);
  }

  // Adds a name. `readable`: bytes that may be read from `bytes` on.
  void PutName(const uint8_t* bytes, size_t count, size_t readable) {
    EndSigns();
    const size_t length_bytes = count < 0x80 ? 1 : count < 0x4000 ? 2 : 3;
    if (count >= 0x200000 || size_ + 1 + length_bytes + count > limit_) {
      full_ = true;
      return;
    }
    uint8_t* at = out_ + size_;
    *at++ = kName;
    size_t rest = count;
    for (; rest >= 0x80; rest >>= 7) *at++ = static_cast<uint8_t>(0x80 | (rest & 0x7f));
    *at++ = static_cast<uint8_t>(rest);
    if (count <= 16 && readable >= 16 && static_cast<size_t>(out_ + limit_ - at) >= 16) {
      std::memcpy(at, bytes, 16);  // two instructions; bytes behind the name are overwritten, or not used
    } else if (count != 0) {
      std::memcpy(at, bytes, count);
    }
    size_ += 1 + length_bytes + count;
    Remember(kName);
  }

  // Adds a sign. `before_number`: it belongs to a number that follows, and is dropped with it.
  void PutSign(uint16_t code, bool before_number) {
    if (!before_number) return Put(code);
    if (!in_signs_) {
      in_signs_ = true;
      first_sign_ = size_;
      sign_ = code;
    }
    Store(code);
    last_ = code;
    full_ |= first_sign_ >= limit_ + kDeepest;
  }

  void PutNumber() {
    if (in_signs_) {
      in_signs_ = false;
      size_ = first_sign_;
    }
    PutValue();
  }

  void PutValue() {
    EndSigns();
    if (Back(0) == kComma && (Back(1) == kValue || Back(1) == kValues)) {
      Pop(2);
      Push(kValues);
    } else {
      Push(kValue);
    }
  }

  void PutClose() {
    EndSigns();
    const uint8_t value = Back(0);
    if (Back(1) != kOpen || (value != kValue && value != kValues)) return Put(kClose);
    Pop(2);
    const uint16_t row = value == kValue ? kRowOfOne : kRowOfMany, rows = value == kValue ? kRowsOfOne : kRowsOfMany;
    if (Back(0) == sql_tokens::kInWord) {
      Pop(1);
      Push(kInList);
    } else if (Back(0) == kComma && (Back(1) == row || Back(1) == rows)) {
      Pop(2);
      Push(rows);
    } else {
      Push(row);
    }
  }

  // Adds a semicolon. Those at the end are dropped.
  void PutSemicolon() {
    EndSigns();
    if (last_ != kSemicolon) first_semicolon_ = size_;
    Store(kSemicolon);
    Remember(kSemicolon);
  }

  size_t Finish() {
    if (!full_ && last_ == kSemicolon) size_ = first_semicolon_;
    return size_ < limit_ ? size_ : limit_;
  }

 private:
  static constexpr size_t kDeepest = 8;  // more than one fold needs

  uint8_t Back(int tokens) const { return static_cast<uint8_t>(tail_ >> (8 * tokens)); }
  void Pop(int tokens) {
    tail_ >>= 8 * tokens;
    size_ -= static_cast<size_t>(tokens);
  }
  void Store(uint16_t code) {
    if (size_ < limit_) out_[size_] = static_cast<uint8_t>(code);
    ++size_;
  }
  void Remember(uint16_t code) {
    tail_ = tail_ << 8 | (code < 0x80 ? code : uint16_t{0xff});
    last_ = code;
  }
  void Push(uint16_t code) {
    Store(code);
    Remember(code);
    full_ |= size_ >= limit_ + kDeepest;
  }
  // Ends a run of signs that no number followed.
  void EndSigns() {
    if (in_signs_) {
      in_signs_ = false;
      Remember(sign_);
    }
  }

  uint8_t* const out_;
  const size_t limit_;
  size_t size_ = 0;
  uint64_t tail_ = 0;  // the last tokens, the latest lowest; without the signs of in_signs_
  uint16_t last_ = kNothing;
  uint16_t sign_ = kNothing;
  bool in_signs_ = false;  // the last tokens are signs in front of an operand
  bool full_ = false;
  size_t first_sign_ = 0;
  size_t first_semicolon_ = 0;
};

}  // namespace perfschema
