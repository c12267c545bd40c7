#include "base/request_digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hash.h"
#include "base/sql_tokens.h"

namespace perfschema {
namespace {

bool IsDigitOf(char c) { return c >= '0' && c <= '9'; }
bool IsLetterOf(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsHexOf(char c) { return IsDigitOf(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

uint64_t Mix(uint64_t a, uint64_t b) {
  const uint64_t mixed = (a ^ std::rotl(b, 23)) * 0x9e3779b97f4a7c15u;
  return mixed ^ mixed >> 32;
}

// Writes a text as verbatim tokens, as much of it as fits.
// Threads: external lock.
class VerbatimWriter {
 public:
  explicit VerbatimWriter(std::span<uint8_t> out) : out_(out) {}
  bool full() const { return is_cut_; }
  void Put(char c) {
    is_cut_ |= size_ + 1 >= out_.size();
    if (!is_cut_) out_[1 + size_++] = static_cast<uint8_t>(c);
  }
  void Put(std::string_view text) {
    for (const char c : text) Put(c);
  }
  char last() const { return size_ == 0 ? '\0' : static_cast<char>(out_[size_]); }
  size_t Finish() {
    if (is_cut_) DropHalfCharacter();
    if (size_ == 0) return 0;
    out_[0] = kVerbatim;
    return 1 + size_;
  }

 private:
  void DropHalfCharacter() {
    size_t begin = size_;
    while (begin > 0 && (out_[begin] & 0xc0) == 0x80) --begin;
    const uint8_t first = begin == 0 ? uint8_t{0} : out_[begin];
    const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    if (begin > 0 && size_ - begin + 1 < bytes) size_ = begin - 1;
  }

  const std::span<uint8_t> out_;
  size_t size_ = 0;
  bool is_cut_ = false;
};

// Returns whether a part of a path is a value: a number or what begins with a digit, a UUID, hexadecimal digits, a name with a number such
// as p123. v1 is the version of an interface.
bool IsValue(std::string_view part) {
  constexpr size_t kId = 16, kHex = 8;
  if (part.empty()) return false;
  if (IsDigitOf(part[0]) || part[0] == '\'') return true;
  const auto digits = static_cast<size_t>(std::count_if(part.begin(), part.end(), IsDigitOf));
  if (digits == 0) return false;
  if (part.size() >= kId) return true;
  if (part.size() >= kHex && std::all_of(part.begin(), part.end(), [](char c) { return IsHexOf(c) || c == '-'; })) return true;
  size_t letters = 0;
  while (letters < part.size() && IsLetterOf(part[letters])) ++letters;
  size_t rest = letters;
  if (rest > 0 && rest < part.size() && (part[rest] == '-' || part[rest] == '_' || part[rest] == '.')) ++rest;
  const bool ends_with_number = std::all_of(part.begin() + static_cast<std::ptrdiff_t>(rest), part.end(), IsDigitOf);
  return ends_with_number && part.size() - rest >= 2;
}

// Takes a part of a path from the front: up to the next slash, or the end of its quotes.
std::string_view TakePart(std::string_view& rest) {
  size_t end = 0;
  if (!rest.empty() && rest[0] == '\'') {
    for (end = 1; end < rest.size(); ++end) {
      if (rest[end] == '\\') {
        ++end;
      } else if (rest[end] == '\'') {
        if (end + 1 == rest.size() || rest[end + 1] != '\'') break;
        ++end;
      }
    }
    end = std::min(end + 1, rest.size());
  } else {
    end = std::min(rest.find_first_of("/? "), rest.size());
  }
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end);
  return part;
}

}  // namespace

bool PathNames::IsOneOfMany(uint64_t position, uint64_t name) {
  const uint64_t place = Mix(position, 1) & ~kCountMask, wanted = Mix(position, name) | 1;
  std::atomic<uint64_t>* count = nullptr;
  for (size_t i = 0; i < kProbes && count == nullptr; ++i) {
    std::atomic<uint64_t>& at = positions_[((place >> (64 - kPositionBits)) + i) % std::size(positions_)];
    uint64_t found = at.load(std::memory_order_relaxed);
    if (found == 0 && at.compare_exchange_strong(found, place, std::memory_order_relaxed)) found = place;
    if ((found & ~kCountMask) == place) count = &at;
  }
  if (count == nullptr || (count->load(std::memory_order_relaxed) & kCountMask) >= kMost) return true;
  for (size_t i = 0; i < kProbes; ++i) {
    std::atomic<uint64_t>& at = names_[((wanted >> (64 - kNameBits)) + i) % std::size(names_)];
    uint64_t found = at.load(std::memory_order_relaxed);
    if (found == 0 && at.compare_exchange_strong(found, wanted, std::memory_order_relaxed)) {
      return (count->fetch_add(1, std::memory_order_relaxed) & kCountMask) >= kMost;
    }
    if (found == wanted) return false;
  }
  return true;
}

size_t HttpTokens(std::string_view request, PathNames* names, std::span<uint8_t> out) {
  if (out.size() < 2) return 0;
  VerbatimWriter writer(out);
  std::string_view rest = request.substr(std::min(request.find_first_not_of(" \t\r\n"), request.size()));
  const std::string_view method = rest.substr(0, rest.find(' '));
  writer.Put(method);
  rest.remove_prefix(method.size());
  uint64_t position = HashByWords(method);
  while (!rest.empty() && !writer.full()) {
    if (rest[0] == '/') {
      writer.Put('/');
      rest.remove_prefix(1);
      const std::string_view part = TakePart(rest);
      const uint64_t name = HashByWords(part);
      const bool is_value = !part.empty() && (IsValue(part) || (names != nullptr && names->IsOneOfMany(position, name)));
      is_value ? writer.Put('?') : writer.Put(part);
      position = Mix(position, is_value ? 1 : name);
    } else if (rest[0] == ' ') {
      rest.remove_prefix(1);
      if (!rest.empty() && rest[0] != ' ') writer.Put(' ');
    } else if (rest[0] == '?') {  // the query
      if (writer.last() != ' ') writer.Put(' ');
      writer.Put('?');
      break;
    } else {  // what is no path
      (void)TakePart(rest);
      writer.Put('?');
    }
  }
  return writer.Finish();
}

size_t PythonTokens(std::string_view code, std::span<uint8_t> out) {
  if (out.size() < 2) return 0;
  VerbatimWriter writer(out);
  const auto at = [&](size_t i) { return i < code.size() ? code[i] : '\0'; };
  const auto is_part = [&](char c) { return IsLetterOf(c) || IsDigitOf(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80; };
  bool has_blank = false;
  const auto put = [&](std::string_view text) {
    if (has_blank && writer.last() != '\0') writer.Put(' ');
    has_blank = false;
    writer.Put(text);
  };
  for (size_t i = 0; i < code.size() && !writer.full();) {
    const char c = code[i];
    if (static_cast<unsigned char>(c) <= ' ') {
      has_blank = true;
      ++i;
    } else if (c == '#') {
      i = std::min(code.find('\n', i), code.size());
    } else if (c == '\'' || c == '"') {
      const bool is_triple = at(i + 1) == c && at(i + 2) == c;
      i += is_triple ? 3 : 1;
      while (i < code.size() && !(code[i] == c && (!is_triple || (at(i + 1) == c && at(i + 2) == c)))) i += code[i] == '\\' ? 2 : 1;
      i = std::min(i + (is_triple ? 3 : 1), code.size());
      put("?");
    } else if (is_part(c)) {
      const size_t begin = i;
      while (is_part(at(i)) || (IsDigitOf(c) && (at(i) == '.' || ((at(i) == '-' || at(i) == '+') && (at(i - 1) | 0x20) == 'e')))) ++i;
      const bool is_prefix = (at(i) == '\'' || at(i) == '"') && i - begin <= 2;  // of a string
      if (!is_prefix) put(IsDigitOf(c) ? "?" : code.substr(begin, i - begin));
    } else if (c == '.' && IsDigitOf(at(i + 1))) {
      while (is_part(at(++i))) {
      }
      put("?");
    } else {
      put(code.substr(i++, 1));
    }
  }
  return writer.Finish();
}

}  // namespace perfschema
