// base/secrets.h: masks passwords in texts of statements, as MySQL's logs do: ALTER USER `a`@`%` IDENTIFIED BY <secret>.
//
// The statements: those of SQL that set a password or take one (CREATE USER, SET PASSWORD, CHANGE MASTER, CREATE USER MAPPING, PRAGMA
// key ...), commands of redis (AUTH, HELLO, CONFIG SET, ACL SETUSER, MIGRATE, SENTINEL), and requests: user:password@ and tokens in a URL.
// Too much is masked rather than too little. docs/howto/texts.md has the list for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace perfschema {

inline constexpr std::string_view kSecretMask = "<secret>";

namespace internal {
constexpr uint32_t LettersOf(std::string_view letters) {
  uint32_t bits = 0;
  for (const char c : letters) bits |= 1u << (static_cast<unsigned char>(c) & 31u);
  return bits;
}
inline constexpr uint32_t kFirstLettersOfSecrets = LettersOf("abcdfghmopsu");
inline constexpr uint32_t kSelect = 's' | 'e' << 8 | 'l' << 16 | 'e' << 24;
inline constexpr size_t kShortText = 8, kLongText = 512;  // a search of a long one for further statements costs nothing beside the lexer
bool MayBeginWithSecret(std::string_view text);
}  // namespace internal

// Returns whether a text may have a secret, by the word that it begins with. Long texts are also searched for further statements. For
// probes: nearly all texts take ten instructions.
inline bool MayHaveSecret(std::string_view text) {
  if (text.size() - internal::kShortText > internal::kLongText - internal::kShortText) return internal::MayBeginWithSecret(text);
  uint32_t first;
  std::memcpy(&first, text.data(), sizeof first);
  if ((first | 0x20202020u) == internal::kSelect) return false;
  const auto c = static_cast<unsigned char>(text[0]);
  const bool is_letter = (c & 0xc0u) == 0x40;
  if (is_letter ? (internal::kFirstLettersOfSecrets >> (c & 31u) & 1u) == 0 : c > '/') return false;
  return internal::MayBeginWithSecret(text);
}

// Copies `text` as CutText() does, with each secret replaced. Returns the bytes written to `out`; 0 if there was no secret, and then `out`
// holds nothing of use. REQUIRES: a capacity of `limit`. For probes.
size_t CutTextWithoutSecrets(std::string_view text, size_t limit, char* out);

// Returns whether a text has a secret. For probes.
inline bool HasSecret(std::string_view text) {
  char cut;
  return MayHaveSecret(text) && CutTextWithoutSecrets(text, 1, &cut) != 0;
}

}  // namespace perfschema
