#include "base/secrets.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/text.h"

namespace perfschema {
namespace {

constexpr bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
constexpr bool IsNameStart(char c) { return (Upper(c) >= 'A' && Upper(c) <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80; }
constexpr bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c) || c == '$'; }

// Compares with a word in capitals.
bool IsWord(std::string_view text, std::string_view word) {
  return text.size() == word.size() && std::equal(text.begin(), text.end(), word.begin(), [](char a, char b) { return Upper(a) == b; });
}
bool EndsWith(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && IsWord(text.substr(text.size() - word.size()), word);
}
bool Contains(std::string_view text, std::string_view word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end(), [](char a, char b) { return Upper(a) == b; }) != text.end();
}
template <size_t N>
bool IsOneOf(std::string_view text, const std::string_view (&words)[N]) {
  return std::any_of(words, words + N, [=](std::string_view word) { return IsWord(text, word); });
}

// What a statement is, by its first word. Scripts that begin with kOther may have such statements further on.
enum class Form : uint8_t { kPlain, kOther, kObject, kSql, kKey, kRequest, kAuth, kHello, kConfig, kAcl, kMigrate };
struct FirstWord {
  std::string_view word;
  Form form;
};
constexpr FirstWord kFirstWords[] = {
    {"CREATE", Form::kObject},   {"ALTER", Form::kObject},    {"GRANT", Form::kSql},       {"SET", Form::kSql},
    {"CHANGE", Form::kSql},      {"CLONE", Form::kSql},       {"START", Form::kSql},       {"ATTACH", Form::kKey},
    {"PRAGMA", Form::kKey},      {"BEGIN", Form::kOther},     {"DROP", Form::kOther},      {"FLUSH", Form::kOther},
    {"USE", Form::kOther},       {"GET", Form::kRequest},     {"HEAD", Form::kRequest},    {"POST", Form::kRequest},
    {"PUT", Form::kRequest},     {"PATCH", Form::kRequest},   {"DELETE", Form::kRequest},  {"OPTIONS", Form::kRequest},
    {"CONNECT", Form::kRequest}, {"AUTH", Form::kAuth},       {"HELLO", Form::kHello},     {"CONFIG", Form::kConfig},
    {"ACL", Form::kAcl},         {"MIGRATE", Form::kMigrate}, {"SENTINEL", Form::kConfig},
};

constexpr bool BeginWithSuchLetters() {
  for (const FirstWord& each : kFirstWords) {
    if ((internal::kFirstLettersOfSecrets >> (static_cast<unsigned char>(each.word[0]) & 31u) & 1u) == 0) return false;
  }
  return true;
}
static_assert(BeginWithSuchLetters(), "MayHaveSecret() passes a word over");

// Returns a word of up to eight letters in capitals as a number; 0 if it is longer.
constexpr uint64_t Packed(std::string_view word) {
  uint64_t packed = 0;
  if (word.size() > sizeof packed) return 0;
  for (const char c : word) packed = packed << 8 | static_cast<unsigned char>(Upper(c));
  return packed;
}

Form FormOf(std::string_view word) {
  const uint64_t wanted = Packed(word);
  for (const FirstWord& each : kFirstWords) {
    if (wanted == Packed(each.word)) return each.form;
  }
  return Form::kPlain;
}

// Objects that have passwords, and words that stand before their kinds.
constexpr std::string_view kObjects[] = {"USER",   "ROLE",     "GROUP", "LOGIN",  "SERVER",    "SUBSCRIPTION",
                                         "SECRET", "DATABASE", "LINK",  "MASTER", "CREDENTIAL"};
constexpr std::string_view kBeforeObjects[] = {"OR", "REPLACE", "PERSISTENT", "TEMPORARY", "TEMP", "SHARED", "PUBLIC", "FOREIGN"};

// Returns whether the literals behind a word of SQL are secret.
bool IsSecretWord(std::string_view word, Form form) {
  if (form == Form::kKey && (EndsWith(word, "KEY") || IsWord(word, "TEXTKEY"))) return true;
  return IsWord(word, "IDENTIFIED") || EndsWith(word, "PASSWORD") || Contains(word, "SECRET") || EndsWith(word, "_TOKEN") ||
         EndsWith(word, "ENCRYPTION_KEY") || IsWord(word, "CONNECTION") || IsWord(word, "CREDENTIALS");
}

// Returns whether a parameter of a URL is secret.
bool IsSecretParameter(std::string_view name) {
  for (const std::string_view part :
       {"PASSW", "PWD", "SECRET", "TOKEN", "SIGNATURE", "APIKEY", "API_KEY", "API-KEY", "ACCESS_KEY", "CREDENTIAL", "SESSION", "AUTH"}) {
    if (Contains(name, part)) return true;
  }
  return IsWord(name, "KEY") || IsWord(name, "SIG") || IsWord(name, "CODE");
}

// Collects the masked text.
class Masked {
 public:
  Masked(size_t limit, char* out) : out_(out), limit_(limit) {}
  void PutMask() {
    Put(kSecretMask);
    has_secrets_ = true;
  }
  void Put(std::string_view piece) {
    const size_t left = limit_ - size_;
    is_cut_ |= piece.size() > left;
    piece = piece.substr(0, left);
    if (!piece.empty()) std::memcpy(out_ + size_, piece.data(), piece.size());
    size_ += piece.size();
  }
  size_t Finish() const {
    if (!has_secrets_) return 0;
    if (!is_cut_) return size_;
    const size_t dots = std::min<size_t>(limit_, 3);
    const size_t kept = CutText({out_, size_}, limit_ - dots).size();
    std::memset(out_ + kept, '.', dots);
    return kept + dots;
  }

 private:
  char* const out_;
  const size_t limit_;
  size_t size_ = 0;
  bool is_cut_ = false, has_secrets_ = false;
};

enum class Kind : uint8_t { kEnd, kBlank, kWord, kString, kName, kHex, kOther };
struct Piece {
  Kind kind;
  std::string_view text;
};

// Splits SQL into pieces that are the whole text together. A backslash escapes a quote, in any dialect: a literal ends late rather than
// early.
class Pieces {
 public:
  explicit Pieces(std::string_view text) : rest_(text) {}

  Piece Next() {
    if (rest_.empty()) return {Kind::kEnd, {}};
    const char c = rest_[0];
    const char next = rest_.size() > 1 ? rest_[1] : 0;
    if (IsBlank(c)) return Take(Kind::kBlank, Length([](char each) { return IsBlank(each); }));
    if ((c == '-' && next == '-') || c == '#') return Take(Kind::kBlank, std::min(rest_.find('\n'), rest_.size()));
    if (c == '/' && next == '*' && !(rest_.size() > 2 && (rest_[2] == '!' || rest_[2] == 'M'))) {  // those are statements of MySQL
      const size_t end = rest_.find("*/", 2);
      return Take(Kind::kBlank, end == std::string_view::npos ? rest_.size() : end + 2);
    }
    if (c == '\'' || c == '"' || c == '`') return Take(c == '`' ? Kind::kName : Kind::kString, Quoted(c));
    if (c == '$') {
      const size_t bytes = DollarQuoted();
      return Take(bytes > 1 ? Kind::kString : Kind::kOther, bytes);
    }
    if (c == '0' && (next == 'x' || next == 'X')) return Take(Kind::kHex, Length(IsNamePart));
    if (IsNameStart(c) || IsDigit(c)) return Take(Kind::kWord, Length(IsNamePart));
    return Take(Kind::kOther, 1);
  }

  // Returns the next character that is no blank; 0: none.
  char Ahead() const {
    const size_t at = rest_.find_first_not_of(" \t\r\n");
    return at == std::string_view::npos ? '\0' : rest_[at];
  }

 private:
  Piece Take(Kind kind, size_t bytes) {
    const std::string_view text = rest_.substr(0, bytes);
    rest_.remove_prefix(text.size());
    return {kind, text};
  }
  template <typename Belongs>
  size_t Length(Belongs belongs) const {
    return static_cast<size_t>(std::find_if_not(rest_.begin(), rest_.end(), belongs) - rest_.begin());
  }
  size_t Quoted(char quote) const {
    for (size_t at = 1; at < rest_.size(); ++at) {
      if (rest_[at] == '\\' && quote != '`') {
        ++at;
      } else if (rest_[at] == quote) {
        if (at + 1 == rest_.size() || rest_[at + 1] != quote) return at + 1;
        ++at;
      }
    }
    return rest_.size();
  }
  size_t DollarQuoted() const {
    size_t tag = 1;
    while (tag < rest_.size() && IsNamePart(rest_[tag]) && rest_[tag] != '$') ++tag;
    if (tag == rest_.size() || rest_[tag] != '$') return 1;
    const std::string_view mark = rest_.substr(0, tag + 1);
    const size_t end = rest_.find(mark, mark.size());
    return end == std::string_view::npos ? rest_.size() : end + mark.size();
  }

  std::string_view rest_;
};

// ---- SQL

// Masks the statements of a script.
void MaskSql(std::string_view text, Masked& out) {
  Pieces pieces(text);
  Form form = Form::kPlain;
  bool is_first = true, is_object_next = false, is_secret = false;
  std::string_view before;  // the piece before, without blanks
  for (Piece piece = pieces.Next(); piece.kind != Kind::kEnd; piece = pieces.Next()) {
    if (piece.kind == Kind::kBlank) {
      out.Put(piece.text);
      continue;
    }
    bool is_masked = false;
    if (piece.kind == Kind::kWord) {
      if (is_first) {
        form = FormOf(piece.text);
        is_object_next = form == Form::kObject;
        is_first = false;
      } else if (is_object_next && !IsOneOf(piece.text, kBeforeObjects)) {
        is_object_next = false;
        if (!IsOneOf(piece.text, kObjects)) form = Form::kPlain;
      }
      if (form == Form::kObject || form == Form::kSql || form == Form::kKey) {
        if (IsSecretWord(piece.text, form)) {
          is_secret = true;
        } else if (pieces.Ahead() == '=') {
          is_secret = false;  // MASTER_PASSWORD = 'x', MASTER_LOG_FILE = 'y'
        }
      }
    } else if (piece.text == ";") {
      is_first = true;
      is_secret = false;
      form = Form::kPlain;
    } else if (is_secret && (piece.kind == Kind::kString || piece.kind == Kind::kHex)) {
      constexpr std::string_view kNot[] = {"WITH", "VIA", "FOR", "UNTIL", "@"};  // plugins, accounts and times
      if (!IsOneOf(before, kNot) && pieces.Ahead() != '@') is_masked = true;
    }
    before = piece.text;
    is_masked ? out.PutMask() : out.Put(piece.text);
  }
}

// ---- Redis

// Masks the arguments of a command, which may be quoted, with blanks or commas in between.
void MaskCommand(std::string_view text, Form form, Masked& out) {
  size_t number = 0, secrets = 0;  // of arguments before; how many of the next ones are secret
  while (!text.empty()) {
    const char c = text[0];
    size_t bytes = 1;
    if (!IsBlank(c) && c != ',') {
      if (c == '\'' || c == '"') {
        bytes = Pieces(text).Next().text.size();
      } else {
        while (bytes < text.size() && !IsBlank(text[bytes]) && text[bytes] != ',') ++bytes;
      }
    }
    const std::string_view piece = text.substr(0, bytes);
    text.remove_prefix(bytes);
    if (IsBlank(c) || c == ',') {
      out.Put(piece);
      continue;
    }
    const std::string_view value = c == '\'' || c == '"' ? piece.substr(1, piece.size() - std::min<size_t>(piece.size(), 2)) : piece;
    const bool is_rule = form == Form::kAcl && number > 2 && !value.empty() && std::strchr("><#!", value[0]) != nullptr;
    const bool is_secret = secrets > 0 || is_rule;
    if (secrets > 0) {
      --secrets;
    } else if (form == Form::kAuth && number == 0) {
      secrets = 2;  // a user, or only a password
    } else if (form == Form::kConfig && number > 1 && (Contains(value, "PASS") || Contains(value, "AUTH"))) {
      secrets = 1;
    } else if (form == Form::kHello && IsWord(value, "AUTH")) {
      secrets = 2;
    } else if (form == Form::kMigrate && number > 0 && (IsWord(value, "AUTH") || IsWord(value, "AUTH2"))) {
      secrets = IsWord(value, "AUTH") ? 1 : 2;
    }
    ++number;
    is_secret ? out.PutMask() : out.Put(piece);
  }
}

// ---- Requests

// Masks user:password@ and secret parameters of URLs.
void MaskRequest(std::string_view text, Masked& out) {
  while (!text.empty()) {
    const size_t scheme = std::min(text.find("://"), text.size());
    const size_t query = std::min(text.find_first_of("?&;"), text.size());
    const size_t at = std::min(scheme, query);
    if (at == text.size()) return out.Put(text);
    const size_t behind = at + (at == scheme ? 3 : 1);
    out.Put(text.substr(0, behind));
    text.remove_prefix(behind);
    constexpr std::string_view kEnds = " \t\r\n'\"";
    if (at == scheme) {
      const std::string_view host = text.substr(0, text.find_first_of("/?#'\" \t\r\n"));
      const size_t user_end = host.rfind('@');
      if (user_end == std::string_view::npos) continue;
      const size_t user = host.find(':');
      if (user < user_end) out.Put(text.substr(0, user + 1));
      out.PutMask();
      text.remove_prefix(user_end);
      continue;
    }
    const std::string_view parameter = text.substr(0, std::min(text.find_first_of("&;"), text.find_first_of(kEnds)));
    const size_t equals = parameter.find('=');
    if (equals == std::string_view::npos || !IsSecretParameter(parameter.substr(0, equals))) continue;
    out.Put(parameter.substr(0, equals + 1));
    out.PutMask();
    text.remove_prefix(parameter.size());
  }
}

std::string_view FirstWordOf(std::string_view text) {
  Pieces pieces(text);
  Piece piece = pieces.Next();
  while (piece.kind == Kind::kBlank || piece.text == "(") piece = pieces.Next();
  return piece.text;
}

// Returns whether a text is a URL, or a method and a URL: DELETE is a word of SQL, too.
bool IsRequest(std::string_view text, std::string_view word, Form form) {
  if (form == Form::kRequest) text.remove_prefix(std::min(text.find(word) + word.size() + 1, text.size()));
  return (text.starts_with('/') && !text.starts_with("/*")) || text.starts_with("http") ||
         (form == Form::kRequest && !text.empty() && (text[0] == '\'' || text[0] == '"'));
}

bool IsScript(std::string_view text) { return text.substr(0, text.size() - 1).find(';') != std::string_view::npos; }

}  // namespace

bool internal::MayBeginWithSecret(std::string_view text) {
  // BEGIN and COMMIT are common; AUTH alone is as short.
  if (text.size() < internal::kShortText && (text.empty() || Upper(text[0]) != 'A')) return false;
  const std::string_view word = FirstWordOf(text);
  const Form form = FormOf(word);
  if (form == Form::kOther || text.size() > internal::kLongText) {
    if (IsScript(text)) return true;
  }
  if (form == Form::kOther) return false;
  return form == Form::kRequest || form == Form::kPlain ? IsRequest(text, word, form) : true;
}

size_t CutTextWithoutSecrets(std::string_view text, size_t limit, char* out) {
  Masked masked(limit, out);
  const std::string_view word = FirstWordOf(text);
  const Form form = FormOf(word);
  if (form >= Form::kAuth) {
    MaskCommand(text, form, masked);
  } else if (IsRequest(text, word, form)) {
    MaskRequest(text, masked);
  } else {
    MaskSql(text, masked);
  }
  return masked.Finish();
}

}  // namespace perfschema
