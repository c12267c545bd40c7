// run/protocols/clients.cpp: see clients.h.
#include "run/protocols/clients.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "run/loader/exported.h"
#include "run/loader/giver.h"

namespace perfschema::run {

thread_local constinit bool t_is_in_client = false;

namespace {

// Returns whether the function of that name is in the module, or in one that it needs, and is no replacement.
void* HandleOf(const char* path, const char* name) {
  void* const handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return nullptr;
  Dl_info of_function, of_this;
  void* const function = dlsym(handle, name);
  const bool is_there = function != nullptr && dladdr(function, &of_function) != 0 &&
                        dladdr(reinterpret_cast<void*>(&HandleOf), &of_this) != 0 && of_function.dli_fbase != of_this.dli_fbase;
  if (is_there) return handle;
  dlclose(handle);
  return nullptr;
}

struct Search {
  const char* name;
  void* handle;
};

int Look(dl_phdr_info* module, size_t, void* search_of) {
  auto& search = *static_cast<Search*>(search_of);
  if (module->dlpi_name == nullptr || module->dlpi_name[0] == 0) return 0;  // the program: its functions come before these
  search.handle = HandleOf(module->dlpi_name, search.name);
  return search.handle != nullptr ? 1 : 0;
}

// Statements that have begun, by the handle of each. A handle has a few places, in one line. More at a time are lost.
constexpr int kBits = 11;
constexpr size_t kPlaces = 64 / sizeof(void*);
struct alignas(64) Handles {
  std::atomic<const void*> at[kPlaces];  // nullptr: free
};
constinit Handles handles[size_t{1} << kBits] = {};  // constinit: the start does not touch these
constinit Running table[(size_t{1} << kBits) * kPlaces] = {};

// Calls `is_it` for each place that a handle may have, until it returns true. Returns that place.
template <typename IsIt>
Running* PlaceOf(const void* handle, IsIt is_it) {
  const size_t line = (reinterpret_cast<uintptr_t>(handle) * 0x9e3779b97f4a7c15u) >> (64 - kBits);
  for (size_t i = 0; i < kPlaces; ++i) {
    if (is_it(handles[line].at[i])) return &table[line * kPlaces + i];
  }
  return nullptr;
}

std::atomic<const void*>& HandleOfPlace(const Running& running) {
  const auto place = static_cast<size_t>(&running - table);
  return handles[place / kPlaces].at[place % kPlaces];
}

// Returns the line of the script that calls a driver, or else `at`. A driver that lets the interpreter be asked may run code of the program
// while it waits, also that of another greenlet. Then its line is that of this statement, and of nothing that comes after it.
SourceLine SourceOfDriver(const SourceLine& at) {
  ScriptCall call;
  if (g_ask_for_script_call == nullptr || !g_ask_for_script_call(&call)) return SourceOfScript(at);
  t_script_call = {};
  return call.at.file != nullptr ? call.at : at;
}

}  // namespace

ClientLibrary::ClientLibrary(const void* caller, std::string_view prefix, const char* first) : module_(nullptr) {
  const link_map* const module = MapOf(caller);
  if (module != nullptr) module_ = GiverOf(module, prefix, first);
  if (module_ == nullptr) FindHandle(module, first);
  is_absent_ = FunctionOf(first) == nullptr;
  is_caller_ = module != nullptr && MapOf(FunctionOf(first)) == module;
}

void ClientLibrary::FindHandle(const link_map* module, const char* first) {
  // The caller has called no other function of the client. The dynamic linker must be asked, although this may be a probe.
  (void)pfs_log(PFS_LOG_NOTE, "PFS-RUN", "clients", first);
  handle_ = module != nullptr ? HandleOf(module->l_name, first) : nullptr;
  if (handle_ == nullptr && dlsym(RTLD_NEXT, first) == nullptr) {
    Search search{first, nullptr};
    dl_iterate_phdr(Look, &search);
    handle_ = search.handle;
  }
  if (handle_ == nullptr) handle_ = RTLD_NEXT;  // never RTLD_DEFAULT, which finds the replacement
}

void* ClientLibrary::FunctionOf(const char* name) const {
  return module_ != nullptr ? Exported(*module_).Find(SymbolName(name)) : dlsym(handle_, name);
}

pfs_key_t StatementKeys::Of(int kind) {
  std::atomic<pfs_key_t>& key = keys_[kind];
  pfs_key_t known = key.load(std::memory_order_relaxed);
  if (known != 0) return known;
  pfs_instrument_info info = {&known, names_[kind], dialect_, documentation_};
  (void)pfs_register_statement(client_, &info, 1);
  key.store(known, std::memory_order_relaxed);
  return known;
}

Running* FindRunning(const void* handle) {
  if (handle == nullptr) return nullptr;
  return PlaceOf(handle, [=](auto& there) { return there.load(std::memory_order_acquire) == handle; });
}

bool Begin(Suspendable& running, pfs_key_t key, const SourceLine& caller, std::string_view text, const char* schema) {
  const SourceLine at = SourceOfScript(caller);
  new (&running.statement) pfs_statement_t{};
  running.kept_bytes = 0;
  if (pfs_statement_begin_at(&running.statement, key, nullptr, at.file, at.line) == 0) return false;
  if (!text.empty()) pfs_statement_set_text(&running.statement, text.data(), text.size());
  if (schema != nullptr && schema[0] != 0) pfs_statement_set_schema(&running.statement, schema);
  return true;
}

void Suspend(Suspendable& running) {
  running.kept_bytes = pfs_statement_suspend(&running.statement, running.kept, running.kept_size);
  if (running.kept_bytes <= running.kept_size) return;
  std::free(running.kept);
  running.kept = std::malloc(running.kept_bytes);
  running.kept_size = running.kept == nullptr ? 0 : running.kept_bytes;
  running.kept_bytes = pfs_statement_suspend(&running.statement, running.kept, running.kept_size);
  if (running.kept_bytes > running.kept_size) running.kept_bytes = 0;
}

void Resume(Suspendable& running) {
  if (running.kept_bytes != 0) pfs_statement_resume(&running.statement, running.kept);
  running.kept_bytes = 0;
}

Running* BeginRunning(const void* handle, pfs_key_t key, const Site& site, std::string_view text, const char* schema) {
  Running* const running = PlaceOf(handle, [=](auto& there) {
    const void* none = nullptr;
    return there.load(std::memory_order_relaxed) == nullptr && there.compare_exchange_strong(none, handle);
  });
  if (running == nullptr) {
    CountLoss(Loss::kLockers);
    return nullptr;
  }
  running->rows = running->affected = 0;
  if (Begin(*running, key, SourceOfDriver({site.text, kWholePlace}), text, schema)) return running;
  HandleOfPlace(*running).store(nullptr, std::memory_order_release);
  return nullptr;
}

void End(Running& running) {
  pfs_statement_end(&running.statement);
  HandleOfPlace(running).store(nullptr, std::memory_order_release);
}

}  // namespace perfschema::run
