// run/clients.h: what the replacements of database clients share: finding the client's own functions, and statements that run.
#pragma once

#include <link.h>

#include <atomic>
#include <string_view>

#include "run/real.h"
#include "run/sites.h"
#include "run/small_lock.h"

namespace perfschema::run {

// Is the library that a module calls when it calls a client: its own code, or another module. A process may have several copies of a
// client, each for its own callers.
class ClientLibrary {
 public:
  // `first`: a function that every client of the kind has; `prefix`: what the names of its functions begin with. Slow.
  ClientLibrary(const void* caller, std::string_view prefix, const char* first);

  // Sets a pointer to the function of that name, or to nullptr.
  template <typename Function>
  void Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(FunctionOf(name));
  }

 private:
  void* FunctionOf(const char* name) const;

  const link_map* module_;  // nullptr: it was looked for with `handle_`
  void* handle_ = nullptr;
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
  auto* const made = new Entry{site.module, Functions(library), first.load(std::memory_order_relaxed)};
  while (!first.compare_exchange_weak(made->next, made, std::memory_order_release)) {
  }  // pairs with the load above; two threads may both add a module
  return made->functions;
}

// Is true in the thread while a client's function runs that calls others of the same client: those record nothing.
extern thread_local constinit bool t_is_in_client __attribute__((tls_model("initial-exec"), visibility("hidden")));

class InClient {
 public:
  InClient() { t_is_in_client = true; }
  ~InClient() { t_is_in_client = false; }
  InClient(const InClient&) = delete;
  InClient& operator=(const InClient&) = delete;
};

// Returns whether the call of a client's function records nothing.
inline bool IsPlainClient() { return IsPlain() || t_is_in_client; }

// Registers the instruments of a client when the first is asked for.
class StatementKeys {
 public:
  // `names`: string literals.
  constexpr StatementKeys(const char* client, const char* const* names, const char* documentation)
      : client_(client), names_(names), documentation_(documentation) {}
  pfs_key_t Of(int kind);

 private:
  static constexpr int kMost = 4;
  const char* const client_;
  const char* const* const names_;
  const char* const documentation_;
  std::atomic<pfs_key_t> keys_[kMost] = {};
};

// Is a statement that may be suspended between two calls of the program. Zeroed memory is a valid one.
struct Suspendable {
  pfs_statement_t statement;
  void* kept;  // its state while it is suspended
  size_t kept_size, kept_bytes;
};

// Begins it. Returns false if it is not recorded.
bool Begin(Suspendable& running, pfs_key_t key, const SourceLine& at, std::string_view text, const char* schema);
void Suspend(Suspendable& running);
void Resume(Suspendable& running);

// Is a statement that is found by a handle of the client: a connection, a statement. Threads: the client's own rule that a handle is used
// by one thread at a time. Of a statement that another thread goes on with, only the part in the first thread is recorded.
struct Running : Suspendable {
  uint64_t rows;
  uint64_t before;  // what the client needs to remember
};

// Returns the statement of a handle, or nullptr. Lock-free.
Running* FindRunning(const void* handle);

// Begins a statement. Returns nullptr if it is not recorded. REQUIRES: the handle has none.
Running* BeginRunning(const void* handle, pfs_key_t key, const Site& site, std::string_view text, const char* schema);

// Ends the statement and frees its place.
void End(Running& running);

}  // namespace perfschema::run
