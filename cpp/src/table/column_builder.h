// table/column_builder.h: turns rows into arrays, with one builder for each column.
//
// Rows come in batches. The loop over a batch (Column::append) keeps its array positions in registers, and checks the
// capacity once. Each text is stored once, however many rows have it. Equal pointers mean equal texts
// (snapshot/text.h), so most lookups compare two words.
#pragma once

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "table/registry.h"

namespace perfschema {

// Threads: external lock. Valid as long as the Snapshot whose texts it is given.
class ColumnBuilder {
 public:
  // Appends the values of a number of rows. It is a local variable whose address never escapes: stores into the
  // arrays cannot change it.
  class Batch {
   public:
    void AddWord(uint64_t word) {
      *words_++ = word;
      AddNull(0);
    }
    void AddCode(uint32_t code) {
      *codes_++ = code;
      AddNull(0);
    }
    void AddText(std::string_view text) {
      if (text.data() != last_ || text.size() != last_size_) {
        code_ = builder_.CodeOf(text);
        last_ = text.data();
        last_size_ = text.size();
      }
      AddCode(code_);
    }
    // Appends a text that no other row has.
    void AddOwnText(std::string_view text) { AddCode(builder_.OwnCodeOf(text)); }
    // Appends a text that a builder makes itself, such as the members of a set: `bits` identify it.
    template <typename MakeText>
    void AddMadeText(uint64_t bits, MakeText make) {
      AddCode(builder_.CodeOfBits(bits, make));
    }
    void AddNullWord() {
      *words_++ = 0;
      AddNull(1);
    }
    void AddNullCode() {
      *codes_++ = 0;
      AddNull(1);
    }

   private:
    friend class ColumnBuilder;
    explicit Batch(ColumnBuilder& builder) : builder_(builder) {}
    void AddNull(uint8_t is_null) {
      if (nulls_ == nullptr) return;
      *nulls_++ = is_null;
      any_null_ |= is_null;
    }

    ColumnBuilder& builder_;
    uint64_t* words_ = nullptr;
    uint32_t* codes_ = nullptr;
    uint8_t* nulls_ = nullptr;  // only for a nullable column
    const char* last_ = nullptr;
    size_t last_size_ = ~size_t{0};
    uint32_t code_ = 0;
    uint8_t any_null_ = 0;
  };

  // Announces the approximate number of rows. More rows cost a copy, fewer rows waste memory.
  // `region` has space for them, CapacityOf() a column; or is nullptr. REQUIRES: no batch has begun.
  void Expect(uint64_t rows, const std::shared_ptr<LargeRegion>& region) {
    expected_ = rows;
    data_.words = LargeVector<uint64_t>(LargeAllocator<uint64_t>(region));
    data_.codes = LargeVector<uint32_t>(LargeAllocator<uint32_t>(region));
    data_.nulls = LargeVector<uint8_t>(LargeAllocator<uint8_t>(region));
  }
  static bool IsCoded(ColumnKind kind) { return kind == ColumnKind::kText || kind == ColumnKind::kSet || kind == ColumnKind::kEnum; }
  static uint64_t CapacityOf(uint64_t rows, ColumnKind kind, bool is_nullable) {
    return rows * ((IsCoded(kind) ? sizeof(uint32_t) : sizeof(uint64_t)) + (is_nullable ? 1 : 0)) + 2 * LargeRegion::kAlignment;
  }

  // Makes space for `rows` values. All of them must be added before the next batch begins.
  Batch Begin(size_t rows, ColumnKind kind, bool is_nullable) {
    Batch batch(*this);
    if (IsCoded(kind))
      batch.codes_ = More(&data_.codes, rows);
    else
      batch.words_ = More(&data_.words, rows);
    if (is_nullable) batch.nulls_ = More(&data_.nulls, rows);
    return batch;
  }
  void End(const Batch& batch) { any_null_ |= batch.any_null_; }

  ColumnData Finish() {
    if (!data_.codes.empty() && data_.texts.empty()) data_.texts.Add({});  // code 0 of NULL rows exists
    if (any_null_ == 0) data_.nulls = {};
    data_.has_own_texts = has_own_texts_;
    return std::move(data_);
  }

 private:
  struct Seen {
    const char* text = nullptr;
    size_t size = 0;
    uint32_t code = 0;
  };
  struct Place {
    uint32_t hash;
    uint32_t code_and_1;  // 0 = free
  };
  template <typename T>
  T* More(LargeVector<T>* values, size_t rows) {
    const size_t before = values->size();
    if (before == 0) values->reserve(std::max<uint64_t>(expected_, rows));
    values->resize(before + rows);
    return values->data() + before;
  }
  uint32_t OwnCodeOf(std::string_view text) {
    if (!has_own_texts_) data_.texts.Reserve(expected_);
    has_own_texts_ = true;
    data_.texts.Add(text);
    return static_cast<uint32_t>(data_.texts.size()) - 1;
  }
  uint32_t CodeOf(std::string_view text);
  uint32_t CodeOfText(std::string_view text);
  void Grow();
  template <typename MakeText>
  uint32_t CodeOfBits(uint64_t bits, MakeText make) {
    const auto [found, is_new] = code_of_bits_.try_emplace(bits, static_cast<uint32_t>(data_.texts.size()));
    if (is_new) data_.texts.Add(make());
    return found->second;
  }

  ColumnData data_;
  uint64_t expected_ = 0;
  uint8_t any_null_ = 0;
  bool has_own_texts_ = false;
  std::vector<Seen> seen_;     // by pointer; a later entry replaces an earlier one
  std::vector<Place> places_;  // by text: open addressing, a power of two
  std::unordered_map<uint64_t, uint32_t> code_of_bits_;
};

}  // namespace perfschema
