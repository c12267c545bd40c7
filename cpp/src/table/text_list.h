// table/text_list.h: texts one behind the other in one block: no allocation for each.
#pragma once

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
  void Add(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    ends_.push_back(bytes_.size());
  }

 private:
  LargeVector<char> bytes_;
  LargeVector<size_t> ends_;
};

}  // namespace perfschema
