#include "base/digest.h"

#include <sha2.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/like.h"
#include "base/sql_reducer.h"
#include "base/text.h"

namespace perfschema {

namespace {

using sql_tokens::kTraits;

// Appends to a span. A text that does not fit is cut behind its last whole character, and the writer is full.
// Threads: external lock.
class TextWriter {
 public:
  explicit TextWriter(std::span<char> out) : out_(out) {}
  bool Append(std::string_view text) {
    const std::string_view kept = CutText(text, out_.size() - size_);
    if (!kept.empty()) std::memcpy(out_.data() + size_, kept.data(), kept.size());
    size_ += kept.size();
    return kept.size() == text.size();
  }
  size_t size() const { return size_; }

 private:
  std::span<char> out_;
  size_t size_ = 0;
};

// Threads: external lock.
class StringWriter {
 public:
  bool Append(std::string_view text) {
    text_ += text;
    return true;
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

template <typename Writer>
void WriteText(std::span<const uint8_t> tokens, Writer& out) {
  const auto bytes = [&](size_t from, size_t count) {
    return std::string_view(reinterpret_cast<const char*>(tokens.data()) + from, count);
  };
  bool blank = false;  // before the next token
  for (size_t at = 0; at < tokens.size();) {
    uint16_t code = tokens[at++];
    if (code >= 0x80) {
      if (at == tokens.size() || tokens[at] < 0x80) return;
      code = static_cast<uint16_t>((code & 0x7f) << 7 | (tokens[at++] & 0x7f));
      if (code < kFirstLongSqlWord || code >= kSqlTokenCount) return;
    }
    if (code == kVerbatim) {
      out.Append(bytes(at, tokens.size() - at));
      return;
    }
    if (blank && !out.Append(" ")) return;
    if (code == kName) {
      size_t length = 0;
      for (int shift = 0;; shift += 7) {
        if (at == tokens.size() || shift > 14) return;
        const uint8_t byte = tokens[at++];
        length |= static_cast<size_t>(byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
      if (length > tokens.size() - at) return;
      if (!out.Append("`") || !out.Append(bytes(at, length)) || !out.Append("`")) return;
      at += length;
    } else {
      if (kTraits[code].length == 0 || !out.Append(kTraits.TextOf(code))) return;
    }
    blank = code != kSystemVariable && code != kHostSign;
  }
}
}  // namespace

size_t VerbatimTokens(std::string_view text, std::span<uint8_t> out) {
  if (text.empty() || out.size() < 2) return 0;
  const std::string_view kept = CutText(text, out.size() - 1);
  if (kept.empty()) return 0;
  out[0] = kVerbatim;
  std::memcpy(out.data() + 1, kept.data(), kept.size());
  return 1 + kept.size();
}

size_t DigestText(std::span<const uint8_t> tokens, std::span<char> out) {
  TextWriter writer(out);
  WriteText(tokens, writer);
  return writer.size();
}

std::string DigestText(std::span<const uint8_t> tokens) {
  StringWriter writer;
  WriteText(tokens, writer);
  return writer.Take();
}

void DigestHash(std::span<const uint8_t> tokens, char (&hex)[64]) {
  SHA2_CTX context;
  uint8_t hash[SHA256_DIGEST_LENGTH];
  SHA256Init(&context);
  SHA256Update(&context, tokens.data(), tokens.size());
  SHA256Final(hash, &context);
  for (size_t i = 0; i < sizeof(hash); ++i) {
    hex[2 * i] = "0123456789abcdef"[hash[i] >> 4];
    hex[2 * i + 1] = "0123456789abcdef"[hash[i] & 15];
  }
}

uint64_t DigestKey(std::span<const uint8_t> tokens) {
  // Both halves of a product of two odd constants and eight bytes each: every bit of the input reaches every bit of the key.
  const auto mix = [](uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const auto load = [&](size_t at, size_t count = sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, tokens.data() + at, count);
    return word;
  };
  constexpr uint64_t kFirst = 0x9e3779b97f4a7c15u, kSecond = 0xc2b2ae3d27d4eb4fu, kThird = 0x165667b19e3779f9u;
  const size_t size = tokens.size();
  uint64_t key = size * kFirst, low, high;
  if (size >= 16) {
    for (size_t at = 0; size - at >= 16; at += 16) key = mix(load(at) ^ kSecond, load(at + 8) ^ key) + std::rotl(key, 29);
    low = load(size - 16), high = load(size - 8);  // again some of what is mixed already: a load of eight bytes is no call
  } else {
    low = size == 0 ? 0 : load(0, std::min<size_t>(size, 8)), high = size > 8 ? load(8, size - 8) : 0;
  }
  return mix(mix(low ^ kSecond, high ^ key) ^ kFirst, kThird);
}

Status Normalizer::Make(std::string_view name, Normalizer* made) {
  Normalizer normalizer;
  normalizer.is_identity_ = EqualsIgnoringCase(name, "identity");
  if (!normalizer.is_identity_ && !FindDialect(name, &normalizer.dialect_)) {
    std::string legal;
    for (const std::string_view each : kDialectNames) legal += std::string(each) + ", ";
    return Status(Code::kInvalidArgument, "unknown normalizer '" + std::string(name) + "': legal are " + legal + "identity");
  }
  *made = normalizer;
  return {};
}

size_t Normalizer::Tokens(std::string_view text, Dialect dialect, std::span<uint8_t> out, PathNames* names) const {
  if (is_identity_) return VerbatimTokens(text, out);
  return DigestTokens(text, out, dialect == Dialect::kSql ? dialect_ : dialect, names);
}

}  // namespace perfschema
