// run/protocols/clients.h: what the replacements of database clients share: finding the client's own functions, and statements that run.
#pragma once

#include <link.h>

#include <atomic>
#include <string_view>
#include <type_traits>

#include "run/loader/absent.h"
#include "run/loader/real.h"
#include "run/loader/sites.h"
#include "run/loader/small_lock.h"

namespace perfschema::run {

// The library that a module calls when it calls a client: its own code, or another module. A process may have several copies of a
// client, each for its own callers.
class ClientLibrary {
 public:
  // `first`: a function that every client of the kind has; `prefix`: what the names of its functions begin with. Slow.
  ClientLibrary(const void* caller, std::string_view prefix, const char* first);

  // Returns whether the calling module has the function `first` itself: it is the client, or has one inside.
  bool is_caller() const { return is_caller_; }
  // Returns whether there is none: a program that has bound a weak reference here calls it although it has no client.
  bool is_absent() const { return is_absent_; }

  // Sets a pointer to the function of that name, or to nullptr.
  template <typename Function>
  void Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(FunctionOf(name));
  }
  // The same for a function that is replaced. Without it, the pointer is to a function that fails: it returns kFailed, or nullptr.
  template <int kFailed, typename Result, typename... Arguments>
  void FindReplaced(const char* name, Result (**function)(Arguments...)) const {
    Find(name, function);
    if (*function != nullptr) return;
    *function = [](Arguments...) -> Result {
      if constexpr (std::is_pointer_v<Result>) {
        return nullptr;
      } else {
        return static_cast<Result>(kFailed);
      }
    };
  }

 private:
  void* FunctionOf(const char* name) const;
  void FindHandle(const link_map* module, const char* first);

  const link_map* module_;  // nullptr: it was looked for with `handle_`
  void* handle_ = nullptr;
  bool is_caller_ = false, is_absent_ = false;
};

// The base of the functions of a client, as a module calls them.
struct ClientFunctions {
  bool is_own = false;     // the module is the client
  bool is_absent = false;  // there is no client
};

// Returns the functions of the client that a module calls. Functions has `kFirst` and `kPrefix`, and a constructor that takes the
// ClientLibrary. Lock-free after the first call of a module.
template <typename Functions>
const Functions& ClientOf(const Site& site, const void* caller) {
  struct Entry {
    const Module* caller;
    Functions functions;
    Entry* next;
  };
  static constinit std::atomic<Entry*> first{nullptr};
  for (const Entry* at = first.load(std::memory_order_acquire); at != nullptr; at = at->next) {
    if (at->caller == site.module) return at->functions;
  }
  const ClientLibrary library(caller, Functions::kPrefix, Functions::kFirst);
  if (library.is_absent()) {  // it may be loaded later
    static const Functions absent = [&] {
      Functions functions(library);
      functions.is_absent = true;
      return functions;
    }();
    return absent;
  }
  auto* const made = new Entry{site.module, Functions(library), first.load(std::memory_order_relaxed)};
  made->functions.is_own = library.is_caller();
  while (!first.compare_exchange_weak(made->next, made, std::memory_order_release)) {
  }  // pairs with the load above; two threads may both add a module
  return made->functions;
}

// Is true in the thread while a client's function runs. A call that the client makes then is not the program's: SQLite resets a
// statement within its step when the schema has changed, and prepares others for DDL, VACUUM and full-text tables.
extern thread_local constinit bool t_is_in_client __attribute__((tls_model("initial-exec"), visibility("hidden")));

class InClient {
 public:
  InClient() : before_(t_is_in_client) { t_is_in_client = true; }
  ~InClient() { t_is_in_client = before_; }
  InClient(const InClient&) = delete;
  InClient& operator=(const InClient&) = delete;

 private:
  const bool before_;  // a function of the program that the client has called may call the client
};

// Calls a function of a client.
template <typename Call>
auto InsideOf(Call call) {
  const InClient in_client;
  return call();
}

// Returns whether the call of a client's function records nothing.
inline bool IsPlainClient(const ClientFunctions& client) { return IsPlain() || client.is_absent || (t_is_in_client && client.is_own); }

// Registers the instruments of a client when the first is asked for.
class StatementKeys {
 public:
  // `names`: string literals; `dialect`: PFS_DIALECT_...
  constexpr StatementKeys(const char* client, const char* const* names, uint32_t dialect, const char* documentation)
      : client_(client), names_(names), dialect_(dialect), documentation_(documentation) {}
  pfs_key_t Of(int kind);

 private:
  static constexpr int kMost = 4;
  const char* const client_;
  const char* const* const names_;
  const uint32_t dialect_;
  const char* const documentation_;
  std::atomic<pfs_key_t> keys_[kMost] = {};
};

// A statement that may be suspended between two calls of the program. Zeroed memory is a valid one.
struct Suspendable {
  pfs_statement_t statement;
  void* kept;  // its state while it is suspended
  size_t kept_size, kept_bytes;
};

// Begins it. Returns false if it is not recorded.
bool Begin(Suspendable& running, pfs_key_t key, const SourceLine& at, std::string_view text, const char* schema);
void Suspend(Suspendable& running);
void Resume(Suspendable& running);

// A statement that is found by a handle of the client: a connection, a statement. Threads: the client's own rule that a handle is used
// by one thread at a time. Another thread may end the statement.
struct Running : Suspendable {
  uint64_t rows;
  uint64_t affected;  // rows, so far
  bool is_change;     // the client counts them
};

// Returns the statement of a handle, or nullptr. Lock-free.
Running* FindRunning(const void* handle);

// Begins a statement. Returns nullptr if it is not recorded. REQUIRES: the handle has none.
Running* BeginRunning(const void* handle, pfs_key_t key, const Site& site, std::string_view text, const char* schema);

// Ends the statement and frees its place.
void End(Running& running);

}  // namespace perfschema::run
