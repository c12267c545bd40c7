// table/column_builder.h: rows come in, arrays come out. One builder a column.
//
// A text is built once, however many rows have it. Equal pointers mean equal texts (snapshot/text.h), so most lookups
// compare two words.
#pragma once

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "table/registry.h"

namespace perfschema {

// Threads: external lock. Valid as long as the Snapshot whose texts it is given.
class ColumnBuilder {
 public:
  // The first value then takes memory for so many rows at once.
  void Expect(uint64_t rows) { expected_ = std::min<uint64_t>(rows, 1u << 20); }
  void AddWord(uint64_t word) {
    if (data_.words.empty()) data_.words.reserve(expected_);
    data_.words.push_back(word);
    if (!data_.nulls.empty()) data_.nulls.push_back(0);
  }
  void AddCode(uint32_t code) {
    if (data_.codes.empty()) data_.codes.reserve(expected_);
    data_.codes.push_back(code);
    if (!data_.nulls.empty()) data_.nulls.push_back(0);
  }
  void AddText(std::string_view text) {
    AddCode(text.data() == last_.data() && text.size() == last_.size() && !data_.texts.empty() ? last_code_
                                                                                               : CodeOf(text));
  }
  // A text that a builder makes itself, such as the members of a set: `bits` stand for it.
  template <typename MakeText>
  void AddMadeText(uint64_t bits, MakeText make) {
    const auto found = code_of_bits_.find(bits);
    if (found != code_of_bits_.end()) return AddCode(found->second);
    const auto code = static_cast<uint32_t>(data_.texts.size());
    data_.texts.push_back(make());
    code_of_bits_.emplace(bits, code);
    AddCode(code);
  }
  void AddNullWord() {
    if (data_.words.empty()) data_.words.reserve(expected_);
    data_.words.push_back(0);
    MarkNull(data_.words.size());
  }
  void AddNullCode() {
    if (data_.codes.empty()) data_.codes.reserve(expected_);
    data_.codes.push_back(0);
    MarkNull(data_.codes.size());
  }
  ColumnData Finish() {
    if (!data_.codes.empty() && data_.texts.empty()) data_.texts.emplace_back();  // code 0 of NULL rows exists
    return std::move(data_);
  }

 private:
  struct Place {
    const char* text;
    uint32_t size;
    uint32_t code;
  };
  void MarkNull(size_t rows) {
    if (data_.nulls.empty()) {
      data_.nulls.reserve(expected_);
      data_.nulls.resize(rows - 1);
    }
    data_.nulls.push_back(1);
  }
  uint32_t CodeOf(std::string_view text);
  void Grow();
  static size_t Hash(const char* text) {
    return static_cast<size_t>((reinterpret_cast<uintptr_t>(text) * 0x9e3779b97f4a7c15u) >> 32);
  }

  ColumnData data_;
  uint64_t expected_ = 0;
  std::string_view last_;
  uint32_t last_code_ = 0;
  std::vector<Place> places_;  // open addressing by pointer; a power of two
  size_t places_used_ = 0;
  std::unordered_map<std::string_view, uint32_t> code_of_text_;
  std::unordered_map<uint64_t, uint32_t> code_of_bits_;
};

}  // namespace perfschema
