// Statements become tokens, and tokens text, a hash and a key (semantics.md I1-I4).
#include "base/digest.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "base/sql_tokens.h"
#include "base/text.h"

namespace perfschema {
namespace {

std::vector<uint8_t> Tokens(std::string_view sql, size_t limit = 4096, Dialect dialect = Dialect::kSql) {
  std::vector<uint8_t> tokens(limit);
  tokens.resize(DigestTokens(sql, tokens, dialect));
  return tokens;
}
std::string Text(std::string_view sql, size_t limit = 4096) { return DigestText(Tokens(sql, limit)); }

TEST(Digest, hash_is_sha256) {
  char hex[64];
  DigestHash({}, hex);
  EXPECT_EQ(std::string(hex, 64), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const uint8_t abc[] = {'a', 'b', 'c'};
  DigestHash(abc, hex);
  EXPECT_EQ(std::string(hex, 64), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, key_depends_on_every_bit_and_on_the_length) {
  std::set<uint64_t> keys;
  size_t made = 0;
  for (size_t size = 0; size <= 40; ++size) {
    std::vector<uint8_t> tokens(size);
    keys.insert(DigestKey(tokens));
    ++made;
    for (size_t bit = 0; bit < 8 * size; ++bit, ++made) {
      tokens[bit / 8] = static_cast<uint8_t>(1u << bit % 8);
      keys.insert(DigestKey(tokens));
      tokens[bit / 8] = 0;
    }
  }
  EXPECT_EQ(keys.size(), made);
  const std::vector<uint8_t> tokens = Tokens("select 1 from t");
  EXPECT_EQ(DigestKey(tokens), DigestKey(Tokens("SELECT 2 FROM t")));
}

TEST(Digest, I2_text_of_any_limit_is_a_beginning_of_the_whole) {
  const std::string_view statements[] = {
      "SELECT a, b FROM t WHERE c IN (1, 2, 3) AND d = - - 5 AND e = - f",
      "INSERT INTO t (a, b) VALUES (1, 2), (3, 4), (NULL, -1); ; ",
      "SELECT ((1)), ((1, 2), (3)), IN (1), (2), ------1; SELECT a;;",
      "CREATE TABLE `x``y` (a INT NOT NULL DEFAULT 'x' 'y', b CURRENT_TIMESTAMP)",
      "SELECT 1 IN ($1::INTEGER, CAST(2 AS my_type), now(), DEFAULT, -f(1), DATE 'x'), b IN (1::t + 2 * \"c\", 3)",
      "INSERT INTO t VALUES (1::pg_catalog.varchar(3)[], now()), (2, f(1, x)), (g(1, 2), DEFAULT); SELECT ((1, 2::t), (a, 3::t))",
      "SAVEPOINT s1; ROLLBACK TO s1; DECLARE \"c 1\" CURSOR FOR SELECT 1; FETCH FORWARD 10 FROM \"c 1\"; CLOSE c1",
  };
  for (size_t at = 0; at < std::size(statements) * kDialectNames.size(); ++at) {
    const std::string_view sql = statements[at / kDialectNames.size()];
    const auto dialect = static_cast<Dialect>(at % kDialectNames.size());
    const std::vector<uint8_t> whole = Tokens(sql, 4096, dialect);
    const std::string text = DigestText(whole);
    for (size_t limit = 0; limit <= whole.size() + 2; ++limit) {
      const std::vector<uint8_t> cut = Tokens(sql, limit, dialect);
      EXPECT_LE(cut.size(), limit);
      EXPECT_TRUE(std::equal(cut.begin(), cut.end(), whole.begin())) << sql << " at " << limit;
      EXPECT_EQ(text.compare(0, DigestText(cut).size(), DigestText(cut)), 0) << sql << " at " << limit;
      if (limit >= whole.size()) {
        EXPECT_EQ(cut, whole);
      }
    }
  }
}

TEST(Digest, a_long_text_of_a_short_form_fits) {
  std::string sql = "SELECT a FROM t WHERE a IN (";
  for (int i = 0; i < 100000; ++i) sql += std::to_string(i) + ", ";
  const std::string list = sql + "1)", signs = "SELECT " + std::string(100000, '-') + "1";
  EXPECT_EQ(Text(list, 16), "SELECT `a` FROM `t` WHERE `a` IN (...)");
  EXPECT_EQ(Text(signs, 2), "SELECT ?");
  EXPECT_EQ(Text(sql + "a)", 14), "SELECT `a` FROM `t` WHERE `a` IN (");
}

TEST(Digest, tokens_of_any_bytes_are_text) {
  std::mt19937_64 random(42);
  for (int round = 0; round < 200000; ++round) {
    uint8_t tokens[24];
    for (uint8_t& byte : tokens) byte = static_cast<uint8_t>(random() >> 40) & (round % 2 == 0 ? 0xff : 0x83);
    const std::span<const uint8_t> stream(tokens, random() % (sizeof(tokens) + 1));
    const std::string text = DigestText(stream);
    char out[64];
    const size_t capacity = random() % sizeof(out);
    const size_t size = DigestText(stream, std::span<char>(out, capacity));
    ASSERT_LE(size, capacity);
    ASSERT_EQ(text.compare(0, size, out, size), 0);
  }
}

TEST(Digest, text_that_does_not_fit_ends_with_a_whole_character) {
  const std::vector<uint8_t> tokens = Tokens("select `h\xc3\xa9h\xc3\xa9`");
  char out[16];
  EXPECT_EQ(std::string(out, DigestText(tokens, std::span<char>(out, 10))), "SELECT `h");
  EXPECT_EQ(std::string(out, DigestText(tokens, std::span<char>(out, 11))), "SELECT `h\xc3\xa9");
  EXPECT_EQ(DigestText(tokens, std::span<char>(out, 0)), 0u);
}

TEST(Digest, verbatim_text_is_kept) {
  uint8_t tokens[8];
  const std::string_view text = "a  1 \xc3\xa9";
  EXPECT_EQ(DigestText({tokens, VerbatimTokens(text, tokens)}), text);
  EXPECT_EQ(DigestText({tokens, VerbatimTokens(text, std::span(tokens, 7))}), "a  1 ");
  EXPECT_EQ(VerbatimTokens(text, std::span(tokens, 1)), 0u);
  EXPECT_EQ(VerbatimTokens("", tokens), 0u);
}

TEST(Digest, I1_sql_text_is_cut_with_dots) {
  const auto cut = [](std::string_view text, size_t limit) {
    std::string out(limit, '#');
    out.resize(CutText(text, limit, out.data()));
    return out;
  };
  EXPECT_EQ(cut("SELECT 1", 8), "SELECT 1");
  EXPECT_EQ(cut("SELECT 1234", 10), "SELECT ...");
  EXPECT_EQ(cut("SELECT 1234", 0), "");
  EXPECT_EQ(cut("SELECT 1234", 1), ".");
  EXPECT_EQ(cut("SELECT 1234", 2), "..");
  EXPECT_EQ(cut("SELECT 1234", 3), "...");
  EXPECT_EQ(cut("SELECT 1234", 4), "S...");
  EXPECT_EQ(cut("\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 8), "\xe2\x82\xac...");
  EXPECT_EQ(cut("", 0), "");
}

TEST(Digest, every_word_is_found_in_any_case) {
  for (size_t i = 0; i < kSqlWordCount; ++i) {
    const SqlWord& word = SqlWordAt(i);
    std::string lower;
    for (const char c : word.text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    const bool called = (word.traits & kOnlyCalled) != 0;
    const std::string shown(word.shown.empty() ? word.text : word.shown);
    if (word.text == "NULL") continue;
    EXPECT_EQ(Text(called ? lower + "(a)" : lower), called ? shown + " ( `a` )" : shown);
    if (called) {
      EXPECT_EQ(Text(lower), "`" + lower + "`");
    }
    EXPECT_EQ(Text(lower + ".x"), "`" + lower + "` . `x`");
    EXPECT_EQ(Text(lower + "x9_"), "`" + lower + "x9_`");
  }
}

}  // namespace
}  // namespace perfschema
