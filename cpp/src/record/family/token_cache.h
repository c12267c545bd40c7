// record/family/token_cache.h: the tokens of a thread's recent texts. A text that comes again is compared, which takes a tenth of the
// time in which the lexer reads it.
//
// A text has one place, chosen by its length and samples of it, and an entry holds the whole text: equal texts have equal tokens. The
// normalizer is chosen at start, so entries never become wrong, and a thread that gets the slot of another may use them.
//
// A program that writes literals into its texts repeats none. After kMisses misses in a row only one text in kEvery is looked up.
//
// Threads: the owner thread, inside a probe. Zeroed memory is an empty cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace perfschema {

class TokenCache {
 public:
  struct Entry {
    uint64_t key;         // of the tokens
    uint32_t text_bytes;  // 0: empty
    uint32_t token_bytes;
    char text[512];
    uint8_t tokens[512];

    bool Holds(std::string_view wanted) const {
      return text_bytes == wanted.size() && std::memcmp(text, wanted.data(), wanted.size()) == 0;
    }
    void Keep(std::string_view kept, std::span<const uint8_t> its_tokens, uint64_t its_key) {
      if (its_tokens.size() > sizeof tokens) return;
      text_bytes = 0;  // a longjmp out of a signal handler may leave the rest undone
      std::atomic_signal_fence(std::memory_order_seq_cst);
      kept.copy(text, sizeof text);
      std::memcpy(tokens, its_tokens.data(), its_tokens.size());
      token_bytes = static_cast<uint32_t>(its_tokens.size());
      key = its_key;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      text_bytes = static_cast<uint32_t>(kept.size());
    }
  };

  // Returns the entry in which a text is, or may be kept; nullptr: it is too short or too long, or texts do not repeat.
  Entry* PlaceOf(std::string_view text) {
    if (text.size() < sizeof(uint64_t) || text.size() > sizeof Entry::text) return nullptr;
    if (misses_ >= kMisses && ++passed_over_ % kEvery != 0) return nullptr;
    const size_t last = text.size() - sizeof(uint64_t);
    uint64_t mixed = text.size();
    for (const size_t at : {size_t{0}, last / 3, last * 2 / 3, last}) {
      uint64_t sample;
      std::memcpy(&sample, text.data() + at, sizeof sample);
      mixed = (mixed ^ sample) * 0x9e3779b97f4a7c15u;
    }
    return &entries_[mixed >> (64 - kPlaceBits)];
  }
  void CountHit() { misses_ = 0; }
  void CountMiss() { misses_ += misses_ < kMisses ? 1 : 0; }

 private:
  static constexpr int kPlaceBits = 4;
  static constexpr uint32_t kMisses = 64, kEvery = 1024;

  uint32_t misses_;  // in a row
  uint32_t passed_over_;
  Entry entries_[1u << kPlaceBits];
};

}  // namespace perfschema
