// record/family/token_cache.h: the tokens of a thread's recent texts. A text that comes again is compared, which takes a tenth of the
// time in which the lexer reads it.
//
// A text has one place, chosen by its length, samples of it and its language, and an entry holds the whole text: equal texts have equal
// tokens. The normalizer is chosen at start, so entries never become wrong, and a thread that gets the slot of another may use them.
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
    uint64_t key;  // of the tokens
    // The digest that the tokens belong to, as it was when a statement last counted there (record/family/digests.h).
    struct ShmDigest* digest;
    uint64_t digest_life;
    uint64_t version;     // differs for each text that was kept
    uint32_t text_bytes;  // 0: empty
    uint32_t token_bytes;
    char text[512];
    uint8_t tokens[512];

    bool Holds(std::string_view wanted) const {
      return text_bytes == wanted.size() && std::memcmp(text, wanted.data(), wanted.size()) == 0;
    }

   private:
    friend class TokenCache;
    bool Keep(std::string_view kept, std::span<const uint8_t> its_tokens, uint64_t its_key, uint64_t its_version) {
      if (its_tokens.size() > sizeof tokens) return false;
      text_bytes = 0;  // a longjmp out of a signal handler may leave the rest undone
      std::atomic_signal_fence(std::memory_order_seq_cst);
      kept.copy(text, sizeof text);
      std::memcpy(tokens, its_tokens.data(), its_tokens.size());
      token_bytes = static_cast<uint32_t>(its_tokens.size());
      key = its_key;
      digest = nullptr;
      version = its_version;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      text_bytes = static_cast<uint32_t>(kept.size());
      return true;
    }
  };

  // Returns the entry in which a text is, or may be kept; nullptr: it is too short or too long, or texts do not repeat. A text has another
  // place in each of the sixteen languages, in which it may have other tokens.
  Entry* PlaceOf(std::string_view text, uint32_t language) {
    if (text.size() < sizeof(uint64_t) || text.size() > sizeof Entry::text) return nullptr;
    if (misses_ >= kMisses && ++passed_over_ % kEvery != 0) return nullptr;
    const char* const first = text.data();
    const size_t last = text.size() - sizeof(uint64_t);
    constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;
    const auto sample = [](const char* at) {
      uint64_t word;
      std::memcpy(&word, at, sizeof word);
      return word;
    };
    const uint64_t outer = (sample(first) + text.size()) * kMix ^ sample(first + last);
    const uint64_t inner = (sample(first + last / 4) * kMix ^ sample(first + last / 2)) * kMix;
    return &entries_[(outer * kMix ^ inner) * kMix >> (64 - kPlaceBits) ^ language];
  }
  void CountHit() { misses_ = 0; }
  // Keeps the tokens of a text that was not in its entry. Returns whether they fit.
  bool Keep(Entry& entry, std::string_view text, std::span<const uint8_t> tokens, uint64_t key) {
    misses_ += misses_ < kMisses ? 1 : 0;
    return entry.Keep(text, tokens, key, ++versions_);
  }

 private:
  static constexpr int kPlaceBits = 4;
  static constexpr uint32_t kMisses = 64, kEvery = 1024;

  uint32_t misses_;  // in a row
  uint32_t passed_over_;
  uint64_t versions_;
  Entry entries_[1u << kPlaceBits];
};

}  // namespace perfschema
