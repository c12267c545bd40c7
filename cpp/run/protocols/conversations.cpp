// run/protocols/conversations.cpp: see conversations.h.
#include "run/protocols/conversations.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "base/placement.h"
#include "base/settings.h"
#include "run/loader/real.h"
#include "run/protocols/clients.h"
#include "run/protocols/decoder.h"

namespace perfschema::run {

namespace {

// A protocol: its name in PFS_RUN_DECODE, whether the first bytes of a connection are its, and its decoder.
struct Protocol {
  const char* name;
  bool (*recognizes)(std::string_view first);
  Decoder* (*make)();
  uint32_t dialect;
  bool is_on;
};

// A command may also be a line of words.
bool LooksLikeResp(std::string_view first) {
  const char c = first[0];
  return c == '*' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' ' || c == '\r';
}

bool LooksLikeHttp(std::string_view first) {
  for (const std::string_view method : {"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PATCH "}) {
    if (first.starts_with(method)) return true;
  }
  return false;
}

constinit Protocol protocols[] = {
    {"http", LooksLikeHttp, MakeHttpDecoder, PFS_DIALECT_HTTP, false},
    {"redis", LooksLikeResp, MakeRespDecoder, PFS_DIALECT_REDIS, false},  // after http, whose requests look like commands
};

// The instruments of commands, by protocol and name. Grows only; beyond the limit commands share "other".
struct Command {
  const Protocol* protocol;
  char name[32];
  pfs_key_t key;
};
constexpr uint32_t kMostCommands = 200;
constexpr const char* kOther = "other";
constinit Command commands[kMostCommands];
std::atomic<uint32_t> command_count{0};
constinit SmallLock commands_lock;

pfs_key_t FindKey(const Protocol& protocol, std::string_view name, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (commands[i].protocol == &protocol && name == commands[i].name) return commands[i].key;
  }
  return 0;
}

pfs_key_t KeyOfCommand(const Protocol& protocol, std::string_view name) {
  name = name.substr(0, sizeof Command::name - 1);
  if (const pfs_key_t known = FindKey(protocol, name, command_count.load(std::memory_order_acquire)); known != 0) return known;
  const SmallLock::Guard guard(commands_lock);
  const uint32_t count = command_count.load(std::memory_order_relaxed);
  if (count >= kMostCommands - std::size(protocols)) name = kOther;  // the last places are for one of each protocol
  if (const pfs_key_t known = FindKey(protocol, name, count); known != 0) return known;
  Command& command = commands[count];
  command.protocol = &protocol;
  command.name[name.copy(command.name, sizeof command.name - 1)] = 0;
  pfs_instrument_info info = {&command.key, command.name, protocol.dialect, "Requests that this server answers, by pfs run --decode."};
  (void)pfs_register_statement(protocol.name, &info, 1);
  command_count.store(count + 1, std::memory_order_release);  // pairs with the load above
  return command.key;
}

// Threads: the one that has entered.
class Talk final : public Conversation {
 public:
  explicit Talk(const char* site) : site_(site) {}
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;
  ~Talk() {
    while (first_ != last_) End({.is_broken = true});
    for (uint32_t i = 0; i < capacity_; ++i) std::free(entries_[i].kept);
    std::free(entries_);
    delete decoder_;
  }

  // Returns false if the bytes are of no protocol that is decoded.
  bool Take(bool is_input, std::string_view bytes) {
    if (decoder_ == nullptr && !(is_input && Choose(bytes))) return false;
    return is_input ? decoder_->Requests(bytes, *this) : decoder_->Replies(bytes, *this);
  }

  bool Knows(std::string_view command) const override {
    command = command.substr(0, sizeof Command::name - 1);
    return FindKey(*protocol_, command, command_count.load(std::memory_order_acquire)) != 0;
  }

  void Begin(std::string_view command, bool is_known, std::string_view text) override {
    if (last_ - first_ == capacity_ && !Grow()) {
      ++lost_;
      CountLoss(Loss::kLockers);
      return;
    }
    Entry& statement = entries_[last_ % capacity_];
    const pfs_key_t key = KeyOfCommand(*protocol_, is_known ? command : kOther);
    statement.unknown[is_known ? 0 : command.copy(statement.unknown, sizeof statement.unknown - 1)] = 0;
    is_recorded(last_) = run::Begin(statement, key, {site_, kWholePlace}, text, nullptr);
    if (is_recorded(last_)) Suspend(statement);
    ++last_;
  }

  void End(const Reply& reply) override {
    if (first_ == last_) {
      if (lost_ > 0) --lost_;
      return;
    }
    Entry& statement = entries_[first_ % capacity_];
    if (is_recorded(first_)) {
      Resume(statement);
      char message[128];
      message[reply.message.copy(message, sizeof message - 1)] = 0;
      pfs_statement_set(&statement.statement, PFS_ROWS_SENT, reply.rows);
      if (reply.error != 0) {
        pfs_statement_set_error(&statement.statement, reply.error, "HY000", message);
      } else if (statement.unknown[0] != 0 && !reply.is_broken) {
        pfs_statement_refine(&statement.statement, KeyOfCommand(*protocol_, statement.unknown));
      }
      pfs_statement_end(&statement.statement);
    }
    ++first_;
  }

 private:
  struct Entry : Suspendable {
    bool is_recorded;
    char unknown[sizeof Command::name];  // the command, if no server has answered it yet
  };
  static constexpr uint32_t kMost = 1024;  // statements under way; those beyond are answered unrecorded

  bool& is_recorded(uint32_t at) { return entries_[at % capacity_].is_recorded; }

  bool Choose(std::string_view bytes) {
    for (const Protocol& protocol : protocols) {
      if (!protocol.is_on || !protocol.recognizes(bytes)) continue;
      protocol_ = &protocol;
      decoder_ = protocol.make();
      return decoder_ != nullptr;
    }
    return false;
  }

  bool Grow() {
    const uint32_t wanted = capacity_ == 0 ? 4 : capacity_ * 2;
    if (wanted > kMost || lost_ > 0) return false;
    auto* const grown = static_cast<Entry*>(std::calloc(wanted, sizeof(Entry)));
    if (grown == nullptr) return false;
    for (uint32_t i = first_; i != last_; ++i) std::memcpy(&grown[i % wanted], &entries_[i % capacity_], sizeof(Entry));
    std::free(entries_);
    entries_ = grown;
    capacity_ = wanted;
    return true;
  }

  const char* const site_;
  const Protocol* protocol_ = nullptr;
  Decoder* decoder_ = nullptr;
  Entry* entries_ = nullptr;  // a ring of `capacity_`, a power of two: those from first_ to last_ are under way
  uint32_t capacity_ = 0, first_ = 0, last_ = 0;
  uint32_t lost_ = 0;  // younger requests than those
};

// The conversations by descriptor, and who may touch them. A thread that has set kBusy has the right to the conversation; another one that
// comes meanwhile does not wait: it sets kUnwanted, and the first one drops the conversation when it is done.
constexpr uint32_t kDescriptors = 65536;
constexpr uint8_t kBusy = 1, kUnwanted = 2;
constinit std::atomic<uint8_t> states[kDescriptors] = {};
constinit Talk* talks[kDescriptors] = {};

bool HasPlace(int fd) { return fd >= 0 && static_cast<uint32_t>(fd) < kDescriptors; }

// Returns whether the caller has the right to the conversation now. Pairs with Leave().
bool Enter(int fd) { return (states[fd].fetch_or(kBusy, std::memory_order_acquire) & kBusy) == 0; }

void DropTalk(int fd) {
  delete talks[fd];
  talks[fd] = nullptr;
}

void Leave(int fd) {
  uint8_t state = kBusy;
  if (states[fd].compare_exchange_strong(state, 0, std::memory_order_release, std::memory_order_acquire)) return;
  DropTalk(fd);
  states[fd].store(0, std::memory_order_release);
}

}  // namespace

void CommandText::AddCommand(std::string_view name, bool is_known) {
  if (!is_known) {
    AddCommand(kOther);
    OpenArgument();
    Add(name);
    return CloseArgument();
  }
  for (const char c : name) Put(c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
}

void CommandText::OpenArgument() {
  if (arguments_++ > 0) Put(',');
  Put(' ');
  Put('\'');
}

void CommandText::Add(std::string_view piece) {
  for (const char c : piece.substr(0, sizeof text_ - size_)) {
    if (c == '\'' || c == '\\') Put(c);
    Put(c == 0 ? '?' : c);
  }
}

void CommandText::AddPath(std::string_view path) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_plain = [&](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-' || c == '~';
  };
  const size_t end = path.find('?');
  std::string_view rest = path.substr(0, end);
  Put(' ');
  while (!rest.empty()) {
    Put('/');
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(part.size());
    constexpr size_t kId = 16;
    const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), is_digit);
    const bool is_id = part.size() >= kId && std::any_of(part.begin(), part.end(), is_digit);
    if (is_number || (!is_id && !part.empty() && !is_digit(part[0]) && std::all_of(part.begin(), part.end(), is_plain))) {
      for (const char c : part) Put(c);
    } else if (!part.empty()) {
      Put('\'');
      Add(part);
      Put('\'');
    }
  }
  if (end == std::string_view::npos) return;
  Put(' ');
  Put('\'');
  Add(path.substr(end));
  Put('\'');
}

PFS_IN_EVERY_PROCESS void StartConversations() {
  const char* const wanted = Setting("PFS_RUN_DECODE");
  if (wanted == nullptr) return;
  for (std::string_view rest = wanted; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    for (Protocol& protocol : protocols) {
      if (name == protocol.name) protocol.is_on = g_runtime.run_is_decoding = true;
    }
  }
}

void BeginConversation(int fd, const char* site) {
  if (!HasPlace(fd) || !Enter(fd)) return;
  const int error = errno;
  DropTalk(fd);  // the descriptor before was closed in a way that was not seen
  talks[fd] = new (std::nothrow) Talk(site);
  Leave(fd);
  errno = error;
}

void EndConversation(int fd) {
  if (!HasPlace(fd)) return;
  const int error = errno;
  states[fd].fetch_or(kUnwanted, std::memory_order_relaxed);
  if (Enter(fd)) Leave(fd);
  errno = error;
}

void SawParts(int fd, bool is_input, const iovec* parts, size_t part_count, size_t count) {
  if (!HasPlace(fd)) return;
  if (!Enter(fd)) {
    states[fd].fetch_or(kUnwanted, std::memory_order_relaxed);  // these bytes would be missing
    return;
  }
  const int error = errno;
  bool goes_on = talks[fd] != nullptr;
  for (size_t i = 0; i < part_count && count > 0 && goes_on; ++i) {
    const size_t bytes = std::min(count, parts[i].iov_len);
    if (bytes > 0) goes_on = talks[fd]->Take(is_input, {static_cast<const char*>(parts[i].iov_base), bytes});
    count -= bytes;
  }
  if (!goes_on) DropTalk(fd);
  Leave(fd);
  errno = error;
}

void SawBytes(int fd, bool is_input, const void* bytes, size_t count) {
  const iovec part = {const_cast<void*>(bytes), count};
  SawParts(fd, is_input, &part, 1, count);
}

void SawHole(int fd, size_t count) {
  static constexpr char kNothing[4096] = {};
  for (size_t part = 0; count > 0; count -= part) {
    part = std::min(count, sizeof kNothing);
    SawBytes(fd, false, kNothing, part);
  }
}

}  // namespace perfschema::run
