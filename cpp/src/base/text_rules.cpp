#include "base/text_rules.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "base/digest.h"
#include "base/like.h"
#include "base/text.h"

namespace perfschema {

namespace {
using Bytes = std::bitset<256>;

Bytes Range(int from, int to) {
  Bytes bytes;
  for (int c = from; c <= to; ++c) bytes.set(static_cast<size_t>(c));
  return bytes;
}
Bytes Digits() { return Range('0', '9'); }
Bytes WordBytes() { return Digits() | Range('a', 'z') | Range('A', 'Z') | Range('_', '_') | Range(0x80, 0xff); }
Bytes Blanks() { return Range('\t', '\r') | Range(' ', ' '); }

bool IsWordByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}
}  // namespace

// Turns a pattern into a graph of nodes (one node per byte, or free edges between nodes), and that into a table of states, each a set of
// nodes.
// Threads: external lock.
class RuleCompiler {
 public:
  explicit RuleCompiler(std::string_view pattern) : all_(pattern), pattern_(pattern) {}

  Status Compile(TextRule* rule) {
    const bool begins = TakeEdge(true, '^', &rule->begin_), ends = TakeEdge(false, '$', &rule->end_);
    const Part whole = Alternatives(0);
    if (error_.empty() && at_ < pattern_.size()) error_ = "')' has no '('";
    if (error_.empty() && (begins || ends) && alternatives_at_top_) error_ = "alternatives between ^ $ \\b need parentheses around them";
    if (error_.empty()) MakeStates(whole, rule);
    if (error_.empty() && rule->accepts_[1] != 0) error_ = "it matches the empty text";
    if (error_.empty()) return {};
    return Status(Code::kInvalidArgument, "bad pattern '" + std::string(all_) + "': " + error_);
  }

 private:
  static constexpr size_t kMostNodes = 2000, kMostStates = 500;
  static constexpr int kDeepest = 50, kMostRepeats = 255, kNone = -1;
  struct Node {
    Bytes bytes;
    int on_byte = kNone;
    int free[2] = {kNone, kNone};
  };
  struct Part {
    int first, last;  // no edge leaves `last` yet
  };

  bool TakeEdge(bool front, char anchor, TextRule::Edge* edge) {
    const auto matches = [&](std::string_view sign) {
      if (!(front ? pattern_.starts_with(sign) : pattern_.ends_with(sign))) return false;
      if (!front) {  // "\$" and "\\b" are no anchors
        size_t escapes = 0;
        while (escapes < pattern_.size() - sign.size() && pattern_[pattern_.size() - sign.size() - 1 - escapes] == '\\') ++escapes;
        if (escapes % 2 != 0) return false;
        pattern_.remove_suffix(sign.size());
      } else {
        pattern_.remove_prefix(sign.size());
      }
      return true;
    };
    *edge = matches({&anchor, 1}) ? TextRule::Edge::kText : matches("\\b") ? TextRule::Edge::kWord : TextRule::Edge::kAny;
    return *edge != TextRule::Edge::kAny;
  }

  int Add() {
    if (nodes_.size() >= kMostNodes) {
      error_ = "it is too long";
      return 0;
    }
    nodes_.emplace_back();
    return static_cast<int>(nodes_.size()) - 1;
  }
  Node& At(int node) { return nodes_[static_cast<size_t>(node)]; }
  void Link(int from, int to) {
    int* const free = At(from).free;
    free[free[0] == kNone ? 0 : 1] = to;
  }
  Part One(const Bytes& bytes) {
    const int first = Add(), last = Add();
    if (error_.empty()) {
      At(first).bytes = bytes;
      At(first).on_byte = last;
    }
    return {first, last};
  }
  // Matches one character of a class: all its bytes.
  Part OneOf(Bytes bytes) {
    const bool high = bytes.test(0xff);
    Part part = One(bytes);
    if (high && error_.empty()) {
      const Bytes ascii = bytes & Range(0, 0x7f), others = bytes & Range(0x80, 0xff);
      At(part.first).bytes = ascii;
      const Part lead = One(others), rest = One(Range(0x80, 0xbf));
      if (!error_.empty()) return part;
      Link(part.first, lead.first);
      Link(lead.last, rest.first);
      Link(rest.last, rest.first);
      Link(rest.last, part.last);
      Link(lead.last, part.last);
    }
    return part;
  }

  bool More() const { return error_.empty() && at_ < pattern_.size(); }
  bool Take(std::string_view sign) {
    if (!pattern_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  Part Alternatives(int depth) {
    Part part = Sequence(depth);
    while (More() && Take("|")) {
      alternatives_at_top_ |= depth == 0;
      const Part other = Sequence(depth);
      const int first = Add(), last = Add();
      if (!error_.empty()) break;
      Link(first, part.first);
      Link(first, other.first);
      Link(part.last, last);
      Link(other.last, last);
      part = {first, last};
    }
    return part;
  }

  Part Sequence(int depth) {
    const int first = Add();
    int last = first;
    while (More() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      const Part next = Repeated(depth);
      if (!error_.empty()) break;
      Link(last, next.first);
      last = next.last;
    }
    return {first, last};
  }

  Part Repeated(int depth) {
    const size_t begin = at_;
    Part part = Atom(depth);
    int least = 1, most = 1;
    if (!More()) return part;
    const char sign = pattern_[at_];
    if (std::string_view("*+?{").find(sign) == std::string_view::npos) return part;
    ++at_;
    if (sign == '{') Bounds(&least, &most);
    if (sign == '*' || sign == '?') least = 0;
    if (sign == '*' || sign == '+') most = kNone;
    if (More() && std::string_view("*+?{").find(pattern_[at_]) != std::string_view::npos) {
      error_ = "nothing to repeat before '" + std::string(1, pattern_[at_]) + "'";
    }
    const size_t behind = at_;
    // Makes as many copies as needed; an edge bypasses each optional copy.
    const int first = Add();
    int last = first;
    const int copies = most == kNone ? std::max(least, 1) : most;
    const int end = Add();
    for (int copy = 0; copy < copies && error_.empty(); ++copy) {
      if (copy != 0) {
        at_ = begin;
        part = Atom(depth);
      }
      const int before = Add(), after = Add();
      if (!error_.empty()) break;
      Link(last, before);
      Link(before, part.first);
      Link(part.last, after);
      if (copy >= least) Link(before, end);
      if (most == kNone && copy == copies - 1) Link(after, before);
      last = after;
    }
    at_ = behind;
    if (error_.empty()) Link(last, end);
    return {first, end};
  }

  void Bounds(int* least, int* most) {
    const auto number = [&]() -> int {
      int value = kNone;
      while (More() && pattern_[at_] >= '0' && pattern_[at_] <= '9' && value <= kMostRepeats) {
        value = std::max(value, 0) * 10 + (pattern_[at_++] - '0');
      }
      return value;
    };
    *least = *most = number();
    if (Take(",")) *most = number();
    if (!Take("}") || *least == kNone || *least > kMostRepeats || *most > kMostRepeats || (*most != kNone && *most < *least)) {
      error_ = "legal between '{' and '}' are m or m,n or m, with numbers up to 255";
    }
    if (*most == 0 && error_.empty()) error_ = "{0} matches nothing";
  }

  Part Atom(int depth) {
    if (Take("(")) {
      if (depth == kDeepest) error_ = "too many parentheses in parentheses";
      if (!Take("?:") && More() && pattern_[at_] == '?') error_ = "after '(?' only ':' is legal";
      const Part part = error_.empty() ? Alternatives(depth + 1) : Part{0, 0};
      if (error_.empty() && !Take(")")) error_ = "'(' has no ')'";
      return part;
    }
    if (Take("[")) return OneOf(Class());
    if (Take(".")) return OneOf(~Range('\n', '\n'));
    if (Take("\\")) {
      const Bytes bytes = Escape();
      return bytes.count() == 1 ? One(bytes) : OneOf(bytes);
    }
    const char c = pattern_[at_];
    if (std::string_view("*+?{").find(c) != std::string_view::npos) error_ = "nothing to repeat before '" + std::string(1, c) + "'";
    if (c == '^' || c == '$') error_ = "^ is legal at the start only, $ at the end";
    ++at_;
    Part part = One(Range(static_cast<unsigned char>(c), static_cast<unsigned char>(c)));
    // A multi-byte character is one atom.
    while (More() && static_cast<unsigned char>(c) >= 0xc0 && (static_cast<unsigned char>(pattern_[at_]) & 0xc0) == 0x80) {
      const int byte = static_cast<unsigned char>(pattern_[at_++]);
      const Part next = One(Range(byte, byte));
      if (!error_.empty()) break;
      Link(part.last, next.first);
      part.last = next.last;
    }
    return part;
  }

  // Reads the rest of an escape, behind the backslash.
  Bytes Escape() {
    const auto single = [](int c) { return Range(c, c); };
    if (!More()) {
      error_ = "nothing behind '\\'";
      return {};
    }
    const char c = pattern_[at_++];
    switch (c) {
      case 'd':
        return Digits();
      case 'D':
        return ~Digits();
      case 'w':
        return WordBytes();
      case 'W':
        return ~WordBytes();
      case 's':
        return Blanks();
      case 'S':
        return ~Blanks();
      case 't':
        return single('\t');
      case 'n':
        return single('\n');
      case 'r':
        return single('\r');
      case 'x': {
        int value = 0;
        for (int i = 0; i < 2; ++i) {
          const char digit = More() ? AsciiLower(pattern_[at_++]) : ' ';
          const size_t found = std::string_view("0123456789abcdef").find(digit);
          if (found == std::string_view::npos) error_ = "two hexadecimal digits are legal behind '\\x'";
          value = value * 16 + static_cast<int>(found & 15);
        }
        return single(value);
      }
      default:
        if (IsWordByte(c)) error_ = "'\\" + std::string(1, c) + "' has no meaning here";
        return single(static_cast<unsigned char>(c));
    }
  }

  // Reads the rest of a class, behind '['.
  Bytes Class() {
    Bytes bytes;
    const bool negated = Take("^");
    bool first = true;
    for (; More() && (first || pattern_[at_] != ']'); first = false) {
      const auto item = [&] {
        if (Take("\\")) return Escape();
        const int byte = static_cast<unsigned char>(pattern_[at_++]);
        if (byte >= 0x80) error_ = "only ASCII is legal between '[' and ']'";
        return Range(byte, byte);
      };
      const Bytes low = item();
      if (More() && pattern_[at_] == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
        ++at_;
        const Bytes high = item();
        const auto only = [](const Bytes& one) { return one.count() == 1 ? static_cast<int>(one._Find_first()) : kNone; };
        if (error_.empty() && (only(low) == kNone || only(high) < only(low))) error_ = "a range in '[' ']' goes down, or has no ends";
        if (error_.empty()) bytes |= Range(only(low), only(high));
      } else {
        bytes |= low;
      }
    }
    if (error_.empty() && !Take("]")) error_ = "'[' has no ']'";
    return negated ? ~bytes : bytes;
  }

  // Returns all nodes that are reached without a byte.
  std::vector<int> Closure(std::vector<int> nodes) {
    std::vector<bool> seen(nodes_.size());
    for (const int node : nodes) seen[static_cast<size_t>(node)] = true;
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const int next : At(nodes[i]).free) {
        if (next == kNone || seen[static_cast<size_t>(next)]) continue;
        seen[static_cast<size_t>(next)] = true;
        nodes.push_back(next);
      }
    }
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  void MakeStates(Part whole, TextRule* rule) {
    // Bytes that are in the same sets form one class.
    std::vector<Bytes> classes = {~Bytes{}};
    for (const Node& node : nodes_) {
      if (node.on_byte == kNone) continue;
      for (size_t i = classes.size(); i-- > 0;) {
        const Bytes inside = classes[i] & node.bytes;
        if (inside.none() || inside == classes[i]) continue;
        classes[i] &= ~node.bytes;
        classes.push_back(inside);
      }
    }
    std::vector<size_t> samples;
    for (size_t i = 0; i < classes.size(); ++i) {
      samples.push_back(classes[i]._Find_first());
      for (size_t byte = 0; byte < 256; ++byte) {
        if (classes[i].test(byte)) rule->classes_[byte] = static_cast<uint8_t>(i);
      }
    }
    rule->class_count_ = classes.size();

    std::map<std::vector<int>, uint16_t> numbers = {{{}, uint16_t{0}}};
    std::vector<std::vector<int>> states = {{}, Closure({whole.first})};
    numbers.emplace(states[1], uint16_t{1});
    for (size_t state = 0; state < states.size(); ++state) {
      rule->accepts_.push_back(std::binary_search(states[state].begin(), states[state].end(), whole.last) ? 1 : 0);
      for (const size_t byte : samples) {
        std::vector<int> reached;
        for (const int node : states[state]) {
          if (At(node).on_byte != kNone && At(node).bytes.test(byte)) reached.push_back(At(node).on_byte);
        }
        std::sort(reached.begin(), reached.end());
        reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
        const auto [found, added] = numbers.emplace(Closure(std::move(reached)), static_cast<uint16_t>(states.size()));
        if (added) states.push_back(found->first);
        rule->next_.push_back(found->second);
      }
      if (states.size() > kMostStates) {
        error_ = "it is too complicated";
        return;
      }
    }
  }

  const std::string_view all_;
  std::string_view pattern_;  // without its anchors
  size_t at_ = 0;
  std::vector<Node> nodes_;
  std::string error_;  // the first one
  bool alternatives_at_top_ = false;
};

Status TextRule::Compile(std::string_view pattern, std::string replacement, TextRule* rule) {
  TextRule made;
  made.replacement_ = std::move(replacement);
  Status status = RuleCompiler(pattern).Compile(&made);
  if (status.ok()) *rule = std::move(made);
  return status;
}

bool TextRule::IsEdge(Edge edge, std::string_view text, size_t at, size_t border) {
  if (edge == Edge::kAny) return true;
  if (edge == Edge::kText) return at == border;
  return (at != 0 && IsWordByte(text[at - 1])) != (at != text.size() && IsWordByte(text[at]));
}

size_t TextRule::Apply(std::string_view in, std::span<char> out) const {
  size_t size = 0, steps = 16 * in.size();
  const auto append = [&](std::string_view text) {
    const size_t count = std::min(text.size(), out.size() - size);
    if (count != 0) std::memcpy(out.data() + size, text.data(), count);
    size += count;
  };
  for (size_t at = 0; at < in.size() && size < out.size();) {
    size_t end = at;  // of the longest match so far
    if (IsEdge(begin_, in, at, 0)) {
      size_t state = 1;
      for (size_t next = at; next < in.size() && steps != 0; --steps) {
        state = next_[state * class_count_ + classes_[static_cast<unsigned char>(in[next])]];
        if (state == 0) break;
        ++next;
        if (accepts_[state] != 0 && IsEdge(end_, in, next, in.size())) end = next;
      }
    }
    if (end == at) {
      append(in.substr(at++, 1));
    } else {
      append(replacement_);
      at = end;
    }
  }
  return size;
}

Status Normalizer::Make(std::string_view name, std::string_view rules, Normalizer* made) {
  Normalizer normalizer;
  const bool regex = EqualsIgnoringCase(name, "regex");
  if (regex) {
    normalizer.kind_ = Kind::kRegex;
  } else if (EqualsIgnoringCase(name, "identity")) {
    normalizer.kind_ = Kind::kIdentity;
  } else if (!FindDialect(name, &normalizer.dialect_)) {
    std::string legal;
    for (const std::string_view each : kDialectNames) legal += std::string(each) + ", ";
    return Status(Code::kInvalidArgument, "unknown normalizer '" + std::string(name) + "': legal are " + legal + "identity, regex");
  }
  while (!rules.empty()) {
    std::string rule;
    size_t at = 0;
    for (; at < rules.size() && rules[at] != ';' && rules[at] != '\n'; ++at) {
      if (rules[at] == '\\' && at + 1 < rules.size()) {
        if (rules[at + 1] != ';') rule += '\\';
        ++at;
      }
      rule += rules[at];
    }
    rules.remove_prefix(std::min(at + 1, rules.size()));
    if (Trim(rule).empty()) continue;
    const size_t arrow = rule.find("->");
    if (arrow == std::string::npos) {
      return Status(Code::kInvalidArgument, "bad rule '" + std::string(Trim(rule)) + "': legal is 'pattern -> replacement'");
    }
    TextRule compiled;
    const std::string_view whole = rule;
    Status status = TextRule::Compile(Trim(whole.substr(0, arrow)), std::string(Trim(whole.substr(arrow + 2))), &compiled);
    if (!status.ok()) return status;
    normalizer.rules_.push_back(std::move(compiled));
  }
  if (regex && normalizer.rules_.empty())
    return Status(Code::kInvalidArgument, "the normalizer regex needs rules: 'pattern -> replacement; ...'");
  if (!regex && !normalizer.rules_.empty()) return Status(Code::kInvalidArgument, "rules are for the normalizer regex only");
  *made = std::move(normalizer);
  return {};
}

size_t Normalizer::Tokens(std::string_view text, Dialect dialect, std::span<uint8_t> out, PathNames* names) const {
  switch (kind_) {
    case Kind::kIdentity:
      return VerbatimTokens(text, out);
    case Kind::kRegex:
      return ApplyRules(text, out);
    default:
      return DigestTokens(text, out, dialect == Dialect::kSql ? dialect_ : dialect, names);
  }
}

[[gnu::noinline]] size_t Normalizer::ApplyRules(std::string_view text, std::span<uint8_t> out) const {
  char windows[2][kWindow];
  text = CutText(text, kWindow);
  size_t next = 0;
  for (const TextRule& rule : rules_) {
    text = std::string_view(windows[next], rule.Apply(text, windows[next]));
    next = 1 - next;
  }
  return VerbatimTokens(text, out);
}

}  // namespace perfschema
