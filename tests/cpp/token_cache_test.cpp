// TokenCache: what it holds is the text, byte for byte, with the tokens that were kept with it; it never mixes two texts.
#include "record/family/token_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/hash.h"

namespace perfschema {
namespace {

std::unique_ptr<TokenCache> Empty() { return std::make_unique<TokenCache>(); }

struct Tokens {
  uint8_t bytes[1024];
  size_t size;
  uint64_t key;
  explicit Tokens(std::string_view text) : size(DigestTokens(text, bytes)), key(DigestKey({bytes, size})) {}
};

// Does what a probe does. Returns whether the text was there, and fails if its tokens are not those of the text.
bool Look(TokenCache& cache, const std::string& text) {
  TokenCache::Entry* const entry = cache.PlaceOf(text, 0);
  const Tokens wanted(text);
  if (entry != nullptr && entry->Holds(text)) {
    cache.CountHit();
    EXPECT_EQ(std::string(reinterpret_cast<char*>(entry->tokens), entry->token_bytes),
              std::string(reinterpret_cast<const char*>(wanted.bytes), wanted.size))
        << text;
    EXPECT_EQ(entry->key, wanted.key);
    return true;
  }
  if (entry != nullptr) {
    cache.Keep(*entry, text, {wanted.bytes, wanted.size}, wanted.key);
  }
  return false;
}

std::string Select(size_t bytes) {
  std::string text = "select ";
  while (text.size() < bytes) text += 'a';
  return text.substr(0, bytes);
}

TEST(TokenCache, holds_a_text_that_comes_again) {
  const auto cache = Empty();
  for (const size_t bytes : {8, 9, 100, 511, 512}) {
    EXPECT_FALSE(Look(*cache, Select(bytes)));
    EXPECT_TRUE(Look(*cache, Select(bytes)));
  }
}

TEST(TokenCache, leaves_out_what_is_too_short_or_too_long) {
  const auto cache = Empty();
  for (const size_t bytes : {0, 1, 7, 513, 100'000}) {
    const std::string text = Select(bytes);
    EXPECT_EQ(cache->PlaceOf(text, 0), nullptr) << bytes;
  }
  // 512 bytes can have more tokens than that: a name of one letter takes three.
  std::string names = "a";
  while (names.size() < 510) names += "+b";
  ASSERT_GT(Tokens(names).size, sizeof TokenCache::Entry::tokens);
  EXPECT_FALSE(Look(*cache, names));
  EXPECT_FALSE(Look(*cache, names));
}

// Texts of one length that differ in any one byte, most of them outside the samples, so that they share a place.
TEST(TokenCache, one_byte_makes_another_text) {
  const auto cache = Empty();
  const std::string text = Select(200);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = other[at] == 'z' ? 'y' : 'z';
    Look(*cache, text);
    EXPECT_FALSE(Look(*cache, other)) << at;
    EXPECT_TRUE(Look(*cache, other)) << at;
  }
}

TEST(TokenCache, random_texts) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto cache = Empty();
  std::vector<std::string> texts;
  for (int i = 0; i < 60; ++i) {
    std::string text = "select c from t where a = '";
    for (size_t n = random() % 500; n-- > 0;) text += static_cast<char>(' ' + random() % 95);
    texts.push_back(text);
  }
  int hits = 0;
  for (int i = 0; i < 20'000; ++i) hits += Look(*cache, texts[random() % (i / 100 % 2 != 0 ? 4 : texts.size())]) ? 1 : 0;
  EXPECT_GT(hits, 5'000);
}

TEST(TokenCache, a_program_that_repeats_no_text_is_soon_left_alone_and_looked_at_again) {
  const auto cache = Empty();
  int looked = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = "select * from t where id = " + std::to_string(i);
    looked += cache->PlaceOf(text, 0) != nullptr ? 1 : 0;
    Look(*cache, text);
  }
  EXPECT_LT(looked, 64 + 200 + 1);
  const std::string text = "select * from t";
  int turns = 0;
  while (!Look(*cache, text)) ASSERT_LT(++turns, 3 * 1024);
  EXPECT_TRUE(Look(*cache, text));
}

// A signal handler may leave Keep at any place by longjmp: then the entry is empty.
TEST(TokenCache, an_entry_that_is_half_written_holds_nothing) {
  const auto cache = Empty();
  const std::string text = Select(50);
  Look(*cache, text);
  TokenCache::Entry* const entry = cache->PlaceOf(text, 0);
  entry->text_bytes = 0;
  EXPECT_FALSE(entry->Holds(text));
}

// Names of files differ in a few digits, which may lie in any bytes of a word. 60,000 of them thrown at random fill 39,300 of 65,536
// places.
TEST(HashByWords, texts_that_differ_in_a_few_digits_fall_apart) {
  for (const auto& [before, after] : std::vector<std::pair<std::string, std::string>>{
           {"/data/shard-", "/x"}, {"/data/", "abcde"}, {"/data/f", ""}, {"/usr/lib/python3/", "x/__init__.py"}, {"/d/", ".log"}}) {
    std::set<uint64_t> places, highest;
    for (int i = 10'000; i < 70'000; ++i) {
      const uint64_t hash = HashByWords(before + std::to_string(i) + after);
      places.insert(hash >> 32 & 0xffff);
      highest.insert(hash >> 48);
    }
    EXPECT_GT(places.size(), 38'500u) << before << after;
    EXPECT_GT(highest.size(), 38'500u) << before << after;
  }
}

}  // namespace
}  // namespace perfschema
