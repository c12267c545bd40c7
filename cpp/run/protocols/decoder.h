// run/protocols/decoder.h: the interface of protocols that a server speaks: requests become statements.
//
// A conversation is the bytes of one accepted socket. The program's reads and writes of it are shown to a decoder, which calls
// Conversation::Begin() for each complete request and End() for each complete reply. A new protocol is a class here, a line in
// conversations.cpp, and its name in `pfs run --decode`.
#pragma once

#include <cstdint>
#include <string_view>

namespace perfschema::run {

// Is what a reply says about its statement.
struct Reply {
  uint64_t rows = 0;
  int error = 0;  // 0: none
  std::string_view message = {};
  bool is_broken = false;  // the connection ended before the reply
};

class Conversation {
 public:
  // Returns whether the server has answered a command without an error before: then it is no word that a client has invented.
  virtual bool Knows(std::string_view command) const = 0;
  // Begins a statement: `command`, in small letters, names the instrument; `text` has the arguments as literals. A command that is not
  // known has the instrument "other" until the server answers it without an error.
  virtual void Begin(std::string_view command, bool is_known, std::string_view text) = 0;
  // Ends the oldest statement.
  virtual void End(const Reply& reply) = 0;

 protected:
  ~Conversation() = default;
};

// Threads: one at a time. Bytes come in the order of the socket, in pieces of any size.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Each returns false if the bytes are of another protocol, or if it cannot follow them any more: nothing more is decoded.
  virtual bool Requests(std::string_view bytes, Conversation& conversation) = 0;
  virtual bool Replies(std::string_view bytes, Conversation& conversation) = 0;
};

// Collects a line that may come in pieces. Lines are cut to N bytes.
template <size_t N>
class Line {
 public:
  // Takes bytes from the front. Returns whether the line is complete; then text() is it, without its end.
  bool Take(std::string_view& bytes) {
    if (is_complete_) size_ = 0;
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    const size_t kept = part.size() < N - size_ ? part.size() : N - size_;
    part.copy(text_ + size_, kept);
    size_ += kept;
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    is_complete_ = end != std::string_view::npos;
    if (is_complete_ && size_ > 0 && text_[size_ - 1] == '\r') --size_;
    return is_complete_;
  }
  std::string_view text() const { return {text_, size_}; }

 private:
  size_t size_ = 0;
  bool is_complete_ = false;
  char text_[N];
};

// Builds the text of a statement: a command and its arguments as literals, so that a digest has neither keys nor values.
class CommandText {
 public:
  void Clear() { size_ = arguments_ = 0; }
  // Adds the name in capitals; one that is not known as the first argument of OTHER.
  void AddCommand(std::string_view name, bool is_known = true);
  // An argument may come in pieces: Open, any number of Add, Close.
  void OpenArgument();
  void Add(std::string_view piece);
  void CloseArgument() { Put('\''); }
  // A path of a URL as it is; what is no name, such as an id or the query, as a literal.
  void AddPath(std::string_view path);
  std::string_view text() const { return {text_, size_}; }

 private:
  void Put(char c) {
    if (size_ < sizeof text_) text_[size_++] = c;
  }
  size_t size_ = 0, arguments_ = 0;
  char text_[1024];
};

// Returns whether a method of HTTP, in small or capital letters, is registered (RFC 9110, WebDAV).
bool IsHttpMethod(std::string_view method);

// Each returns a new decoder, or nullptr if there is no memory.
Decoder* MakeRespDecoder();
Decoder* MakeHttpDecoder();

}  // namespace perfschema::run
