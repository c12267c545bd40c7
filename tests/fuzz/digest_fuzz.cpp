// digest_fuzz.cpp: any bytes as a statement, and any bytes as tokens. libFuzzer calls it (digest.sh); with PFS_FUZZ_ALONE it is a program
// that mutates its own samples: digest_fuzz ROUNDS SEED.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/text.h"

using namespace perfschema;

namespace {

void Require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "digest_fuzz: %s\n", what);
  std::abort();
}

// In memory of its exact size, so that a sanitizer sees a byte too many.
std::vector<uint8_t> Tokens(const uint8_t* data, size_t size, size_t limit) {
  std::unique_ptr<uint8_t[]> out(new uint8_t[limit]);
  const auto dialect = static_cast<Dialect>(size % kDialectNames.size());
  const size_t used = DigestTokens({reinterpret_cast<const char*>(data), size}, {out.get(), limit}, dialect);
  Require(used <= limit, "more tokens than room");
  return {out.get(), out.get() + used};
}

void CheckText(std::span<const uint8_t> tokens) {
  const std::string whole = DigestText(tokens);
  const size_t room = whole.size() / 2;
  std::unique_ptr<char[]> out(new char[room]);
  const size_t used = DigestText(tokens, {out.get(), room});
  Require(used <= room && whole.compare(0, used, out.get(), used) == 0, "a text that is cut is not the beginning of the whole");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const size_t limit = size == 0 ? 0 : input[0];
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[size]);
  if (size != 0) std::memcpy(exact.get(), input, size);
  const uint8_t* data = exact.get();

  const std::vector<uint8_t> whole = Tokens(data, size, 4 * size + 16), cut = Tokens(data, size, limit);
  Require(cut.size() <= whole.size() && std::equal(cut.begin(), cut.end(), whole.begin()), "cut tokens are not the beginning of the whole");
  Require(limit < whole.size() || cut == whole, "tokens that fit are cut");
  Require(Tokens(data, size, limit) == cut && DigestKey(cut) == DigestKey(Tokens(data, size, limit)), "two results for one text");
  CheckText(whole);
  CheckText(cut);
  CheckText({data, size});

  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<uint8_t[]> out(new uint8_t[limit]);
  const size_t used = VerbatimTokens(text, {out.get(), limit});
  Require(used <= limit && text.substr(0, used == 0 ? 0 : used - 1) == DigestText({out.get(), used}), "not the beginning of the text");
  std::unique_ptr<char[]> sample(new char[limit]);
  Require(CutText(text, limit, sample.get()) <= limit, "a text longer than its limit");
  return 0;
}

#ifdef PFS_FUZZ_ALONE
#include <random>
int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 100000;
  std::mt19937_64 random(argc > 2 ? static_cast<uint64_t>(std::atoll(argv[2])) : 1);
  static const char* const kParts[] = {"select ",
                                       "IN",
                                       "(",
                                       ")",
                                       ",",
                                       "?",
                                       "1",
                                       "-",
                                       "+",
                                       "'",
                                       "\"",
                                       "`",
                                       "\\",
                                       "/*",
                                       "*/",
                                       "/*!",
                                       "--",
                                       "#",
                                       "\n",
                                       " ",
                                       ";",
                                       "@",
                                       "@@",
                                       "$",
                                       "$$",
                                       "$a$",
                                       "%s",
                                       "%(",
                                       ")s",
                                       ":",
                                       ".",
                                       "e",
                                       "0x",
                                       "null",
                                       "is ",
                                       "not ",
                                       "count",
                                       "values",
                                       "_utf8",
                                       "n'",
                                       "\xc3",
                                       "\xa9",
                                       "\xff",
                                       "a.",
                                       "1e",
                                       "<=>",
                                       "->>",
                                       "order by",
                                       "abcdefghijklmnopqrstuvwxyz_0123456789",
                                       "::t",
                                       "in (",
                                       "values (",
                                       "now()",
                                       "savepoint ",
                                       "rollback to ",
                                       "fetch ",
                                       "declare ",
                                       "cursor ",
                                       "U&",
                                       "q'["};
  std::string text;
  for (long round = 0; round < rounds; ++round) {
    if (random() % 4 == 0) text.clear();
    for (uint64_t changes = 1 + random() % 8; changes != 0; --changes) {
      const size_t at = text.empty() ? 0 : random() % text.size();
      switch (random() % 5) {
        case 0:
          text.erase(at, random() % 8);
          break;
        case 1:
          text.insert(at, 1, static_cast<char>(random()));
          break;
        case 2:
          text += text.substr(at, random() % 32);
          break;
        default:
          text.insert(random() % 2 == 0 ? at : text.size(), kParts[random() % (sizeof(kParts) / sizeof(kParts[0]))]);
      }
    }
    if (text.size() > 600) text.resize(random() % 600);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
  std::printf("%ld texts\n", rounds);
}
#endif
