// base/sql_reducer.h: the stack of tokens on which lists and rows of literals are folded while a statement is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/sql_tokens.h"

namespace perfschema {

namespace sql_tokens {
inline constexpr auto kTraits = MakeTraits();
inline constexpr uint16_t kInWord = CodeOfSqlWord(FindWord("IN")), kNullWord = CodeOfSqlWord(FindWord("NULL")),
                          kNotWord = CodeOfSqlWord(FindWord("NOT")), kIsWord = CodeOfSqlWord(FindWord("IS")),
                          kAsWord = CodeOfSqlWord(FindWord("AS")), kSelectWord = CodeOfSqlWord(FindWord("SELECT")),
                          kWithWord = CodeOfSqlWord(FindWord("WITH")), kValuesWord = CodeOfSqlWord(FindWord("VALUES")),
                          kTableWord = CodeOfSqlWord(FindWord("TABLE"));
}  // namespace sql_tokens

// The stream is in `out`, as if `out` had no end: `size_` goes on counting behind it, where nothing is stored. So a fold there ends as it
// would in a larger buffer, and the result is the beginning of the one whole stream. Only tokens of one byte are ever folded, at most
// five at a time and a run of signs: the last eight tokens, in a register, are all that the reducer has to know. An item of a row of
// values is the exception.
//
// A row is the inside of parentheses behind IN, VALUES or another row. An item of it that has no name of a column becomes a value where it
// ends: `$1::INTEGER`, `DATE '...'`, `CAST('x' AS uuid)`, `now()`, DEFAULT. In a row the tokens that no literal has take the slow path,
// because their limit is 0 there; in such an item all tokens do.
// Threads: external lock.
class SqlReducer {
 public:
  explicit SqlReducer(std::span<uint8_t> out) : out_(out.data()), limit_(out.size()), fixed_end_(limit_), soft_end_(limit_) {}

  bool full() const { return full_; }  // no later token can change the contents of `out`
  uint16_t last() const { return last_; }
  bool AtExpression() const { return sql_tokens::kTraits[last_].starts_expression; }

  // Adds a token that stays as it is.
  void Put(uint16_t code) {
    EndSigns();
    const size_t bytes = code < 0x80 ? 1 : 2;
    if (__builtin_expect(size_ + bytes > fixed_end_, 0)) return PutSlow(code);
    Write(code);
    size_ += bytes;
    Remember(code);
  }

  // Adds a token that may be folded with others: ',', IN.
  void PutSoft(uint16_t code) {
    EndSigns();
    if (__builtin_expect(size_ >= soft_end_, 0)) return PutSoftSlow(code);
    out_[size_++] = static_cast<uint8_t>(code);
    Remember(code);
  }

  // Adds a '('. `may_begin_row`: the items of a row become values.
  void PutOpen(bool may_begin_row) {
    EndSigns();
    if (__builtin_expect(size_ >= soft_end_, 0)) return PutSoftSlow(kOpen, may_begin_row);
    if (may_begin_row && BeginsRow()) fixed_end_ = 0;
    out_[size_++] = static_cast<uint8_t>(kOpen);
    Remember(kOpen);
  }

  // Adds a name. `readable`: bytes that may be read from `bytes` on.
  void PutName(const uint8_t* bytes, size_t count, size_t readable) {
    EndSigns();
    const size_t length_bytes = BytesOfLength(count);
    if (__builtin_expect(count >= kLongestName || size_ + 1 + length_bytes + count > fixed_end_, 0))
      return PutNameSlow(bytes, count, readable);
    WriteName(bytes, count, readable);
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
    full_ |= first_sign_ >= limit_ + kDeepest && !IsInItem();
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
    if (__builtin_expect(IsInItem(), 0)) {
      if (!CloseInItem()) return;
    } else {
      fixed_end_ = limit_;
    }
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
    LeaveRow();
    if (full_) return;
    if (last_ != kSemicolon) first_semicolon_ = size_;
    Store(kSemicolon);
    Remember(kSemicolon);
  }

  size_t Finish() {
    LeaveRow();
    if (!full_ && last_ == kSemicolon) size_ = first_semicolon_;
    return size_ < limit_ ? size_ : limit_;
  }

 private:
  static constexpr size_t kDeepest = 8;  // more than one fold needs
  static constexpr size_t kLongestName = 0x200000, kNoCut = ~size_t{0};

  static size_t BytesOfLength(size_t count) { return count < 0x80 ? 1 : count < 0x4000 ? 2 : 3; }
  static bool IsRow(uint16_t code) { return code >= kRowOfOne && code <= kRowsOfMany; }

  // Returns whether a '(' begins a row here.
  bool BeginsRow() const { return sql_tokens::kTraits[last_].is_before_row && (last_ != kComma || IsRow(Back(1))); }

  uint8_t Back(int tokens) const { return static_cast<uint8_t>(tail_ >> (8 * tokens)); }
  void Pop(int tokens) {
    tail_ >>= 8 * tokens;
    size_ -= static_cast<size_t>(tokens);
  }
  void Write(uint16_t code) {
    if (code < 0x80) {
      out_[size_] = static_cast<uint8_t>(code);
    } else {
      out_[size_] = static_cast<uint8_t>(0x80 | code >> 7);
      out_[size_ + 1] = static_cast<uint8_t>(0x80 | (code & 0x7f));
    }
  }
  void WriteName(const uint8_t* bytes, size_t count, size_t readable) {
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
    if (__builtin_expect(size_ >= soft_end_, 0)) return PushSlow(code);
    out_[size_++] = static_cast<uint8_t>(code);
    Remember(code);
  }
  // Ends a run of signs that no number followed.
  void EndSigns() {
    if (in_signs_) KeepSigns();
  }

  // ---- Items of rows, and the limit

  bool IsInRow() const { return fixed_end_ != limit_; }
  bool IsInItem() const { return soft_end_ == 0; }

  [[gnu::noinline]] void PushSlow(uint16_t code) {
    if (IsInItem()) item_.has_open_name = false;
    Store(code);
    Remember(code);
    full_ |= size_ >= limit_ + kDeepest && !IsInItem();
  }

  // An item begins with its first token that is no literal. What is behind a literal is dropped with the item's end.
  void BeginItem() {
    item_ = {size_, tail_, last_, kNoCut, 0, last_ == kValue || last_ == kValues, false, false};
    soft_end_ = 0;
  }
  [[gnu::noinline]] void KeepSigns() {
    in_signs_ = false;
    if (IsInRow() && !IsInItem()) {
      item_ = {first_sign_, tail_, Back(0), kNoCut, 0, false, false, false};
      soft_end_ = 0;
    }
    Remember(sign_);
  }
  // The item becomes a value.
  void EndItem() {
    size_ = item_.size;
    tail_ = item_.tail;
    last_ = item_.last;
    soft_end_ = limit_;
    if (!item_.begins_with_value) PutValue();
  }
  // The row is no row of values, and its rest stays as it is.
  void LeaveRow() {
    fixed_end_ = limit_;
    if (!IsInItem()) return;
    soft_end_ = limit_;
    if (item_.cut != kNoCut) {
      size_ = item_.cut;
      full_ = true;
    }
    full_ |= size_ >= limit_ + kDeepest;
  }

  // Adds bytes that stand in an item: behind the limit they are only counted, until the item ends.
  template <typename Writer>
  void PutInItem(uint16_t code, size_t bytes, Writer write) {
    if (size_ + bytes <= limit_) {
      write();
    } else if (item_.cut == kNoCut) {
      item_.cut = size_;
    }
    size_ += bytes;
    Remember(code);
  }

  [[gnu::noinline]] void PutSlow(uint16_t code) {
    const auto is_any = [code](auto... others) { return ((code == others) || ...); };
    if (IsInRow() && ((IsInItem() && item_.has_open_name) ||
                      is_any(sql_tokens::kSelectWord, sql_tokens::kWithWord, sql_tokens::kValuesWord, sql_tokens::kTableWord) ||
                      (code == kCloseBracket && IsInItem() && item_.depth == 0))) {
      LeaveRow();
      if (!full_) Put(code);
      return;
    }
    if (!IsInRow()) {
      full_ = true;
      return;
    }
    if (!IsInItem()) BeginItem();
    if (is_any(kOpenBracket, kOpenBrace)) ++item_.depth;
    if (is_any(kCloseBracket, kCloseBrace)) item_.depth -= item_.depth > 0 ? 1 : 0;
    PutInItem(code, code < 0x80 ? 1 : 2, [&] { Write(code); });
  }

  // A name in an item is a type behind '::' and AS. Another one has to be followed by its '(' or its literal.
  [[gnu::noinline]] void PutNameSlow(const uint8_t* bytes, size_t count, size_t readable) {
    if (IsInItem() && item_.has_open_name) LeaveRow();
    const size_t length = 1 + BytesOfLength(count) + count;
    if (!IsInRow() || count >= kLongestName) {
      if (count < kLongestName && size_ + length <= limit_ && !full_) return PutName(bytes, count, readable);
      LeaveRow();
      full_ = true;
      return;
    }
    if (!IsInItem()) BeginItem();
    item_.is_type = last_ == kCast || last_ == sql_tokens::kAsWord || (last_ == kDot && item_.is_type);
    item_.has_open_name = !item_.is_type;
    PutInItem(kName, length, [&] { WriteName(bytes, count, readable); });
  }

  [[gnu::noinline]] void PutSoftSlow(uint16_t code, bool may_begin_row = false) {
    if (!IsInItem()) {
      if (may_begin_row && BeginsRow()) fixed_end_ = 0;
    } else if (code == kOpen) {
      item_.has_open_name = false;
      ++item_.depth;
    } else if (item_.has_open_name) {
      LeaveRow();
      if (full_) return;
    } else if (code == kComma && item_.depth == 0) {
      EndItem();
    }
    Push(code);
  }

  // Returns false if no ')' can be added.
  [[gnu::noinline]] bool CloseInItem() {
    if (item_.has_open_name) {
      LeaveRow();
    } else if (item_.depth > 0) {
      --item_.depth;
    } else {
      EndItem();
      fixed_end_ = limit_;
    }
    return !full_;
  }

  struct Item {
    size_t size;  // the state where it begins
    uint64_t tail;
    uint16_t last;
    size_t cut;  // where the first bytes that do not fit would be
    uint32_t depth;
    bool begins_with_value;
    bool is_type;        // the last name is one
    bool has_open_name;  // the last token is a name that may be a column
  };

  uint8_t* const out_;
  const size_t limit_;
  size_t fixed_end_;  // of tokens that stay: limit_, and 0 in a row
  size_t soft_end_;   // of the others: limit_, and 0 in an item
  size_t size_ = 0;
  uint64_t tail_ = 0;  // the last tokens, the latest lowest; without the signs of in_signs_
  uint16_t last_ = kNothing;
  uint16_t sign_ = kNothing;
  bool in_signs_ = false;  // the last tokens are signs in front of an operand
  bool full_ = false;
  size_t first_sign_ = 0;
  size_t first_semicolon_ = 0;
  Item item_;
};

}  // namespace perfschema
