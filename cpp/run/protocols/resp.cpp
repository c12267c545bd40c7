// run/protocols/resp.cpp: decodes RESP, the protocol of Redis and Valkey (https://redis.io/docs/latest/develop/reference/protocol-spec/).
//
// A command is an array of strings, or one line of words. Each command has one reply, in order; pushed messages have none. A connection
// that subscribes, monitors or replicates is not followed any further: it has replies without commands.
#include <algorithm>
#include <charconv>
#include <new>

#include "run/protocols/decoder.h"

namespace perfschema::run {
namespace {

int64_t NumberOf(std::string_view text) {
  int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The commands of Redis and Valkey, without those of modules and those that end a conversation.
constexpr std::string_view kCommands =
    " acl append asking auth bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop brpop brpoplpush bzmpop"
    " bzpopmax bzpopmin client cluster command config copy dbsize debug decr decrby del delifeq digest discard dump echo eval eval_ro"
    " evalsha evalsha_ro exec exists expire expireat expiretime failover fcall fcall_ro flushall flushdb function geoadd geodist geohash"
    " geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore get getbit getdel getex getrange getset"
    " hdel hello hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget hmset hpersist"
    " hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals incr incrby incrbyfloat info keys"
    " lastsave latency lcs lindex linsert llen lmove lmpop lolwut lpop lpos lpush lpushx lrange lrem lset ltrim memory mget migrate module"
    " move mset msetex msetnx multi object persist pexpire pexpireat pexpiretime pfadd pfcount pfdebug pfmerge pfselftest ping psetex pttl"
    " publish pubsub quit randomkey readonly readwrite rename renamenx replicaof reset restore restore-asking role rpop rpoplpush rpush"
    " rpushx sadd save scan scard script sdiff sdiffstore select sentinel set setbit setex setnx setrange shutdown sinter sintercard"
    " sinterstore sismember slaveof slowlog smembers smismember smove sort sort_ro spop spublish srandmember srem sscan strlen substr "
    "sunion"
    " sunionstore swapdb time touch ttl type unlink unwatch wait waitaof watch xack xackdel xadd xautoclaim xclaim xdel xdelex xgroup xinfo"
    " xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore"
    " zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex"
    " zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore ";

bool IsRedisCommand(std::string_view name) {
  char wanted[34];
  if (name.empty() || name.size() > sizeof wanted - 2) return false;
  wanted[0] = wanted[name.size() + 1] = ' ';
  name.copy(wanted + 1, name.size());
  return kCommands.find({wanted, name.size() + 2}) != std::string_view::npos;
}

class RespDecoder final : public Decoder {
 public:
  bool Requests(std::string_view bytes, Conversation& conversation) override {
    while (!bytes.empty()) {
      if (left_ > 0) {
        TakeArgument(bytes, conversation);
        if (left_ > 0) continue;
        if (arguments_ == 0 && !Command(conversation)) return false;
      } else if (line_.Take(bytes) && !RequestLine(line_.text(), conversation)) {
        return false;
      }
    }
    return true;
  }

  bool Replies(std::string_view bytes, Conversation& conversation) override {
    while (!bytes.empty()) {
      if (skipped_ > 0) {
        const auto part = static_cast<int64_t>(std::min<size_t>(bytes.size(), static_cast<size_t>(skipped_)));
        bytes.remove_prefix(static_cast<size_t>(part));
        skipped_ -= part;
        if (skipped_ == 0) Item(conversation);
      } else if (reply_line_.Take(bytes) && !ReplyLine(reply_line_.text(), conversation)) {
        return false;
      }
    }
    return true;
  }

 private:
  // ---- Requests

  bool RequestLine(std::string_view line, Conversation& conversation) {
    if (arguments_ > 0) {
      const int64_t bytes = line.starts_with('$') ? NumberOf(line.substr(1)) : -1;
      if (bytes < 0) return false;
      left_ = bytes + 2;  // with its end of line
      if (is_named_) text_.OpenArgument();
      return true;
    }
    text_.Clear();
    name_size_ = 0;
    if (line.starts_with('*')) {
      arguments_ = NumberOf(line.substr(1));
      return arguments_ >= 0;
    }
    return line.empty() || InlineCommand(line, conversation);
  }

  bool InlineCommand(std::string_view line, Conversation& conversation) {
    while (!line.empty()) {
      const std::string_view word = line.substr(0, line.find(' '));
      line.remove_prefix(std::min(line.size(), word.size() + 1));
      if (word.empty()) continue;
      if (name_size_ == 0) {
        AddName(word);
        NameIsComplete(conversation);
        continue;
      }
      text_.OpenArgument();
      text_.Add(word);
      text_.CloseArgument();
    }
    return Command(conversation);
  }

  void NameIsComplete(const Conversation& conversation) {
    const std::string_view name(name_, name_size_);
    is_known_ = conversation.Knows(name) || IsRedisCommand(name);
    text_.AddCommand(name, is_known_);
  }

  void TakeArgument(std::string_view& bytes, const Conversation& conversation) {
    const std::string_view part = bytes.substr(0, static_cast<size_t>(left_));
    const auto end = static_cast<size_t>(std::min<int64_t>(left_, 2));  // of the argument: what is kept back
    const size_t kept = std::min(part.size(), static_cast<size_t>(left_) - end);
    if (is_named_) {
      text_.Add(part.substr(0, kept));
    } else {
      AddName(part.substr(0, kept));
    }
    bytes.remove_prefix(part.size());
    left_ -= static_cast<int64_t>(part.size());
    if (left_ > 0) return;
    if (is_named_) {
      text_.CloseArgument();
    } else {
      NameIsComplete(conversation);
      is_named_ = true;
    }
    --arguments_;
  }

  void AddName(std::string_view part) {
    for (const char c : part.substr(0, sizeof name_ - name_size_)) {
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      name_[name_size_++] = !is_letter ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }

  // Begins the statement of a complete command. Returns false if there will be other replies than one for each command.
  bool Command(Conversation& conversation) {
    const std::string_view name(name_, name_size_);
    is_named_ = false;
    if (name.empty()) return true;  // "*0"
    for (const std::string_view other : {"subscribe", "psubscribe", "ssubscribe", "monitor", "sync", "psync", "replconf"}) {
      if (name == other) return false;
    }
    conversation.Begin(name, is_known_, text_.text());
    return true;
  }

  // ---- Replies

  // Takes the line of an item. Returns false for another line.
  bool ReplyLine(std::string_view line, Conversation& conversation) {
    if (line.empty()) return false;
    const char type = line[0];
    const bool is_outermost = open_ == 0;
    if (is_outermost) {
      open_ = 1;
      reply_ = {};
      is_push_ = type == '>';
    }
    switch (type) {
      case '-':
        if (is_outermost) reply_ = {0, 1, line.substr(1)};
        break;
      case '+':
      case ':':
      case '_':
      case '#':
      case ',':
      case '(':
        break;
      case '$':
      case '=':
      case '!': {
        const int64_t bytes = NumberOf(line.substr(1));
        if (bytes < 0) break;  // null
        if (is_outermost) reply_ = {type == '!' ? 0u : 1u, type == '!' ? 1 : 0, {}};
        skipped_ = bytes + 2;
        return true;
      }
      case '*':
      case '~':
      case '>':
      case '%':
      case '|': {
        const int64_t items = std::max<int64_t>(NumberOf(line.substr(1)), 0);
        if (is_outermost) reply_.rows = static_cast<uint64_t>(items);
        open_ += type == '%' || type == '|' ? 2 * items : items;
        if (type == '|') ++open_;  // attributes stand before the item that they describe
        break;
      }
      default:
        return false;
    }
    Item(conversation);
    return true;
  }

  // Counts an item; the last one of a reply ends the statement.
  void Item(Conversation& conversation) {
    if (--open_ == 0 && !is_push_) conversation.End(reply_);
  }

  Line<512> line_, reply_line_;
  int64_t arguments_ = 0, left_ = 0;  // of the command that is being read; bytes of its argument
  bool is_named_ = false;             // the first argument, its name, has been read
  bool is_known_ = false;
  size_t name_size_ = 0;
  char name_[32];
  CommandText text_;
  int64_t open_ = 0, skipped_ = 0;  // items that the reply still has; bytes of one
  bool is_push_ = false;
  Reply reply_;
};

}  // namespace

Decoder* MakeRespDecoder() { return new (std::nothrow) RespDecoder; }

}  // namespace perfschema::run
