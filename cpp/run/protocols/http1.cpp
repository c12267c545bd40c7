// run/protocols/http1.cpp: decodes HTTP/1.0 and 1.1 of a server: a request is a statement, from its last byte to the last byte of its
// response.
//
// The text is the method and the path; numbers, long ids and the query are literals, so that a digest is a route. A status from 400 on is
// an error. A connection that is upgraded (websockets, HTTP/2) is not followed any further.
#include <algorithm>
#include <charconv>
#include <new>

#include "run/protocols/decoder.h"

namespace perfschema::run {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsSame(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return Lower(x) == Lower(y); });
}

int64_t NumberOf(std::string_view text, int base = 10) {
  int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

// Reads one direction of a connection: first line, headers, body.
class Messages {
 public:
  enum class Step { kMore, kFirstLine, kHeader, kHeadersEnd, kEnd };

  // Takes bytes from the front, up to the next step.
  Step Take(std::string_view& bytes) {
    switch (state_) {
      case State::kBody: {
        const size_t part = left_ < 0 ? bytes.size() : std::min(bytes.size(), static_cast<size_t>(left_));
        bytes.remove_prefix(part);
        if (left_ < 0) return Step::kMore;  // until the connection ends
        left_ -= static_cast<int64_t>(part);
        if (left_ > 0) return Step::kMore;
        state_ = is_chunked_ ? State::kChunkEnd : State::kFirst;
        return is_chunked_ ? Step::kMore : Step::kEnd;
      }
      case State::kChunkEnd:
        if (line_.Take(bytes)) state_ = State::kChunk;
        return Step::kMore;
      case State::kChunk:
        if (!line_.Take(bytes)) return Step::kMore;
        left_ = std::max<int64_t>(NumberOf(line_.text(), 16), 0);
        state_ = left_ > 0 ? State::kBody : State::kTrailer;
        return Step::kMore;
      case State::kTrailer:
        if (!line_.Take(bytes) || !line_.text().empty()) return Step::kMore;
        state_ = State::kFirst;
        return Step::kEnd;
      case State::kFirst:
        if (!line_.Take(bytes) || line_.text().empty()) return Step::kMore;
        left_ = kUnknown;
        is_chunked_ = false;
        state_ = State::kHeaders;
        return Step::kFirstLine;
      case State::kHeaders:
        break;
    }
    if (!line_.Take(bytes)) return Step::kMore;
    if (line_.text().empty()) return Step::kHeadersEnd;
    const std::string_view name = line_.text().substr(0, line_.text().find(':'));
    std::string_view value = line_.text().substr(std::min(line_.text().size(), name.size() + 1));
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    if (IsSame(name, "content-length")) left_ = NumberOf(value);
    if (IsSame(name, "transfer-encoding") && value.size() >= 7 && IsSame(value.substr(value.size() - 7), "chunked")) is_chunked_ = true;
    return Step::kHeader;
  }
  std::string_view line() const { return line_.text(); }

  // Goes on after the headers. Without a length a request has no body, and a response has one until the connection ends. Returns whether
  // the message is over.
  bool Body(bool is_possible, bool is_endless) {
    if (is_possible && is_chunked_) {
      state_ = State::kChunk;
      return false;
    }
    if (!is_possible || left_ == 0 || (left_ == kUnknown && !is_endless)) {
      state_ = State::kFirst;
      return true;
    }
    state_ = State::kBody;
    return false;
  }

 private:
  enum class State { kFirst, kHeaders, kBody, kChunk, kChunkEnd, kTrailer };
  static constexpr int64_t kUnknown = -1;
  State state_ = State::kFirst;
  int64_t left_ = kUnknown;
  bool is_chunked_ = false;
  Line<1024> line_;
};

class HttpDecoder final : public Decoder {
 public:
  bool Requests(std::string_view bytes, Conversation& conversation) override {
    while (!bytes.empty()) {
      bool is_over = false;
      switch (requests_.Take(bytes)) {
        case Messages::Step::kFirstLine:
          if (!RequestLine(requests_.line())) return false;
          break;
        case Messages::Step::kHeadersEnd:
          is_over = requests_.Body(true, false);
          break;
        case Messages::Step::kEnd:
          is_over = true;
          break;
        default:
          break;
      }
      if (is_over) conversation.Begin(is_known_ ? std::string_view(method_, method_size_) : "other", true, text_.text());
    }
    return true;
  }

  bool Replies(std::string_view bytes, Conversation& conversation) override {
    while (!bytes.empty()) {
      bool is_over = false;
      switch (replies_.Take(bytes)) {
        case Messages::Step::kFirstLine: {
          const std::string_view line = replies_.line();
          if (!line.starts_with("HTTP/1.")) return false;
          status_ = static_cast<int>(NumberOf(line.substr(std::min<size_t>(line.size(), 9))));
          reason_size_ = line.size() > 13 ? line.substr(13).copy(reason_, sizeof reason_) : 0;
          break;
        }
        case Messages::Step::kHeadersEnd: {
          constexpr int kSwitching = 101, kNoContent = 204, kNotModified = 304;
          if (status_ == kSwitching) return false;
          const bool is_interim = status_ >= 100 && status_ < 200;
          const bool has_body = !is_interim && status_ != kNoContent && status_ != kNotModified && !is_head_;
          is_over = replies_.Body(has_body, true) && !is_interim;
          break;
        }
        case Messages::Step::kEnd:
          is_over = true;
          break;
        default:
          break;
      }
      if (is_over) conversation.End({0, status_ >= 400 ? status_ : 0, {reason_, reason_size_}});
    }
    return true;
  }

 private:
  // Takes "GET /path?query HTTP/1.1". Returns false for another line.
  bool RequestLine(std::string_view line) {
    const size_t space = line.find(' ');
    if (space == 0 || space > sizeof method_ || space == std::string_view::npos) return false;
    method_size_ = space;
    std::transform(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(space), method_, Lower);
    is_head_ = IsSame(line.substr(0, space), "head");
    text_.Clear();
    is_known_ = IsHttpMethod({method_, method_size_});
    text_.AddCommand({method_, method_size_}, is_known_);
    std::string_view path = line.substr(space + 1);
    path = path.substr(0, path.find(' '));
    text_.AddPath(path);
    return true;
  }

  Messages requests_, replies_;
  char method_[16];
  size_t method_size_ = 0;
  bool is_head_ = false, is_known_ = false;
  CommandText text_;
  int status_ = 0;
  char reason_[64];
  size_t reason_size_ = 0;
};

}  // namespace

bool IsHttpMethod(std::string_view method) {
  for (const std::string_view known : {"get", "head", "post", "put", "delete", "connect", "options", "trace", "patch", "propfind",
                                       "proppatch", "mkcol", "copy", "move", "lock", "unlock", "report", "search", "query"}) {
    if (IsSame(method, known)) return true;
  }
  return false;
}

Decoder* MakeHttpDecoder() { return new (std::nothrow) HttpDecoder; }

}  // namespace perfschema::run
