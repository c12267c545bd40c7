// capi/thread.cpp: starts, attaches and describes threads. Cold, except attach and detach.
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/secrets.h"
#include "capi/guarded.h"
#include "capi/texts.h"
#include "perfschema/server.h"
#include "record/context/attach.h"
#include "record/context/identity.h"
#include "record/engine/classes.h"

using perfschema::Family;
using perfschema::ShmThreadTexts;
using perfschema::Status;
using perfschema::ThreadOrigin;
using perfschema::capi::TextOf;
using namespace perfschema::capi;

namespace {

static_assert(sizeof(ThreadOrigin) <= sizeof(pfs_thread_origin_t), "frozen: a program reserves it");

// Is passed by pthread_create() of the parent to the new thread. From malloc: no constructor, no exception.
struct Start {
  void* (*start)(void*);
  void* argument;
  uint32_t class_index;
  ThreadOrigin origin;
};

void* Run(void* pointer) {
  const Start given = *static_cast<Start*>(pointer);
  std::free(pointer);
  Guarded([&] { return perfschema::BeginThread(given.class_index, {}, given.origin); });
  return given.start(given.argument);
}

uint32_t ThreadClass(pfs_key_t key) { return perfschema::EnsureStarted() ? perfschema::ClassOfKey(Family::kThread, key) : 0; }

template <size_t N>
void SetText(perfschema::Word (ShmThreadTexts::*words)[N], std::string_view text) {
  Guarded([=] { return perfschema::SetThreadText(words, text), Status(); });
}

}  // namespace

extern "C" {

int pfs_thread_create(pfs_key_t key, pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  const uint32_t class_index = key == 0 ? 0 : ThreadClass(key);
  Start* const given = class_index == 0 ? nullptr : static_cast<Start*>(std::malloc(sizeof(Start)));
  if (given == nullptr) {
    if (class_index != 0) perfschema::CountLoss(perfschema::Loss::kThreadInstances);
    return pthread_create(thread, attributes, start, argument);
  }
  given->start = start;
  given->argument = argument;
  given->class_index = class_index;
  Guarded([=] { return perfschema::DescribeOrigin(&given->origin), Status(); });
  const int rc = pthread_create(thread, attributes, Run, given);
  if (rc != 0) std::free(given);
  return rc;
}

void pfs_thread_describe(pfs_thread_origin_t* origin) {
  if (origin != nullptr) Guarded([=] { return perfschema::DescribeOrigin(new (origin->opaque) ThreadOrigin), Status(); });
}

int pfs_thread_begin(pfs_key_t key, const char* name, const pfs_thread_origin_t* origin) {
  return Guarded([=] {
    ThreadOrigin given{};
    if (origin != nullptr) std::memcpy(&given, origin->opaque, sizeof given);
    return perfschema::BeginThread(key == 0 ? 0 : ThreadClass(key), TextOf(name), given);
  });
}

pfs_thread_t pfs_thread_new(pfs_key_t key, const void* identity, uint64_t processlist_id) {
  pfs_thread_t thread = 0;
  Guarded([&] { return thread = perfschema::NewThread(key, identity, processlist_id), Status(); });
  return thread;
}

int pfs_thread_attach(pfs_thread_t thread) {
  return Guarded([=] { return perfschema::AttachThread(thread); });
}

int pfs_thread_detach(void) { return Guarded(perfschema::DetachThread); }

pfs_thread_t pfs_thread_current(void) { return perfschema::CurrentHandle(); }

pfs_thread_t pfs_thread_own(void) { return perfschema::OwnHandle(); }

int pfs_thread_delete(pfs_thread_t thread) {
  return Guarded([=] { return perfschema::DeleteThread(thread); });
}

void* pfs_thread_identity(pfs_thread_t thread) { return const_cast<void*>(perfschema::IdentityOf(thread)); }

uint64_t pfs_thread_id_of(pfs_thread_t thread) { return perfschema::ThreadIdOf(thread); }

int pfs_set_thread_name(const char* name) {
  return Guarded([=] { return perfschema::SetThreadName(TextOf(name)); });
}

int pfs_set_account(const char* user, const char* host) {
  return Guarded([=] { return perfschema::SetAccount(TextOf(user), TextOf(host)), Status(); });
}

uint64_t pfs_thread_id(void) {
  uint64_t id = 0;
  Guarded([&] { return id = perfschema::CurrentThreadId(), Status(); });
  return id;
}

void pfs_thread_set_id(uint64_t processlist_id) {
  Guarded([=] { return perfschema::SetProcesslistId(processlist_id), Status(); });
}

void pfs_thread_set_db(const char* db) { SetText(&ShmThreadTexts::db, TextOf(db)); }

void pfs_thread_set_command(const char* command) { SetText(&ShmThreadTexts::command, TextOf(command)); }

void pfs_thread_set_state(const char* state) { SetText(&ShmThreadTexts::state, TextOf(state)); }

void pfs_thread_set_info(const char* info, size_t length) {
  std::string_view text = info != nullptr ? std::string_view(info, length) : std::string_view();
  char masked[sizeof(ShmThreadTexts::info)];
  if (perfschema::MayHaveSecret(text)) {
    if (const size_t bytes = perfschema::CutTextWithoutSecrets(text, sizeof masked, masked); bytes != 0) text = {masked, bytes};
  }
  SetText(&ShmThreadTexts::info, text);
}

void pfs_thread_set_start_time(time_t seconds) {
  Guarded([=] { return perfschema::SetThreadStart(seconds > 0 ? static_cast<uint64_t>(seconds) : 0), Status(); });
}

void pfs_thread_set_connection_type(const char* type) { SetText(&ShmThreadTexts::connection_type, TextOf(type)); }

void pfs_thread_set_resource_group(const char* group) { SetText(&ShmThreadTexts::resource_group, TextOf(group)); }

void pfs_thread_set_peer_port(uint16_t port) {
  Guarded([=] { return perfschema::SetPeerPort(port), Status(); });
}

void pfs_thread_set_secondary_engine(int is_secondary) {
  Guarded([=] { return perfschema::SetSecondaryEngine(is_secondary != 0), Status(); });
}

}  // extern "C"
