#include "run/calls/host_names.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/clip.h"

namespace perfschema::run {
namespace {

constexpr size_t kMostName = 32;  // characters: with the place, it fits into the name of an instrument
constexpr size_t kMostPrefix = 48;

// A name that a place has asked for. Threads: any; two may add it at once, which is harmless.
struct LookUp {
  std::atomic<const Site*> site;  // of its object; nullptr: it is not complete. Last: publishes the entry
  const Site* place;
  char prefix[kMostPrefix];
  Site own;
};
constexpr uint32_t kMostLookUps = 64;
constinit LookUp g_look_ups[kMostLookUps] = {};
constinit std::atomic<uint32_t> g_look_up_count{0};

const Site* KnownLookUp(const Site* place, const char* prefix) {
  const uint32_t count = std::min(g_look_up_count.load(std::memory_order_relaxed), kMostLookUps);
  for (uint32_t i = 0; i < count; ++i) {
    const LookUp& known = g_look_ups[i];
    const Site* const site = known.site.load(std::memory_order_acquire);  // pairs with SiteOfLookUp
    if (site != nullptr && known.place == place && std::strcmp(known.prefix, prefix) == 0) return site;
  }
  return nullptr;
}

// Returns the site of a name that a place has asked for, or nullptr if there are too many.
const Site* SiteOfLookUp(const Site* place, bool is_of_script, const char* prefix) {
  if (const Site* const known = KnownLookUp(place, prefix); known != nullptr) return known;
  if (g_look_up_count.load(std::memory_order_relaxed) >= kMostLookUps) return nullptr;
  const uint32_t at = g_look_up_count.fetch_add(1, std::memory_order_relaxed);
  if (at >= kMostLookUps) return nullptr;
  LookUp& made = g_look_ups[at];
  made.place = place;
  std::strcpy(made.prefix, prefix);
  made.own = {place->text, place->module, place->offset, nullptr};
  made.own.prefix = made.prefix;
  const Site* const site = is_of_script ? SiteOfScript(prefix) : &made.own;
  made.site.store(site, std::memory_order_release);
  return site;
}

// Writes what stands before the place. Returns false if it is not known what was asked.
bool WritePrefix(const Asked& asked, char (&prefix)[kMostPrefix]) {
  char address[INET6_ADDRSTRLEN], name[kMostName + 1];
  const char* const text = asked.address != nullptr ? inet_ntop(asked.family, asked.address, address, sizeof address) : asked.name;
  if (text == nullptr) return false;
  CopyClipped(name, text, kMostName);
  (void)std::snprintf(prefix, sizeof prefix, "%s%s-", PrefixOf(Kind::kResolve), name);
  return true;
}

}  // namespace

Asked::Asked(const void* its_bytes, socklen_t bytes, int its_family) : family(its_family) {
  if (its_family == AF_INET && bytes >= sizeof(in_addr)) address = its_bytes;
  if (its_family == AF_INET6 && bytes >= sizeof(in6_addr)) address = its_bytes;
}

Asked::Asked(const sockaddr* of, socklen_t bytes) {
  if (of == nullptr || bytes < sizeof of->sa_family) return;
  family = of->sa_family;
  if (family == AF_INET && bytes >= sizeof(sockaddr_in)) address = &reinterpret_cast<const sockaddr_in*>(of)->sin_addr;
  if (family == AF_INET6 && bytes >= sizeof(sockaddr_in6)) address = &reinterpret_cast<const sockaddr_in6*>(of)->sin6_addr;
}

Object* ObjectOfLookUp(const Asked& asked, const void* caller) {
  char prefix[kMostPrefix];
  const bool is_of_script = t_script_call.place != nullptr;
  const Site* const site =
      WritePrefix(asked, prefix) ? SiteOfLookUp(is_of_script ? t_script_call.place : SiteOf(caller), is_of_script, prefix) : nullptr;
  return site != nullptr ? ObjectOfSite(site, Kind::kResolve) : ObjectOfPlace(Kind::kResolve, caller);
}

}  // namespace perfschema::run
