// table/text_list.h: consecutive texts in one block: no allocation for each text.
#pragma once

#include <cstring>
#include <string_view>

#include "base/large_vector.h"

namespace perfschema {

// Threads: external lock.
class TextList {
 public:
  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  // Valid until the next Add().
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return {bytes_.data() + begin, ends_[i] - begin};
  }
  // Announces the approximate number of texts.
  void Reserve(size_t texts) { ends_.reserve(texts); }
  void Add(std::string_view text) {
    const size_t before = bytes_.size(), after = before + text.size();
    if (after > bytes_.capacity()) bytes_.reserve(after * 2);
    bytes_.resize(after);
    if (!text.empty()) std::memcpy(bytes_.data() + before, text.data(), text.size());  // one copy: a vector would append byte by byte
    ends_.push_back(bytes_.size());
  }

 private:
  LargeVector<char> bytes_;
  LargeVector<size_t> ends_;
};

}  // namespace perfschema
