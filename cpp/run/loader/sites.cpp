#include "run/loader/sites.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clip.h"
#include "base/placement.h"
#include "record/engine/runtime.h"
#include "run/loader/address_map.h"
#include "run/loader/exported.h"
#include "run/loader/real.h"
#include "run/loader/start_path.h"

#if !__GLIBC_PREREQ(2, 35)
struct dl_find_object {
  unsigned long long int dlfo_flags;
  void *dlfo_map_start, *dlfo_map_end;
  link_map* dlfo_link_map;
  void* dlfo_eh_frame;
  unsigned long long int reserved[7];
};
#endif
// Since glibc 2.35. Without it all places have the module "unknown".
extern "C" int _dl_find_object(void*, dl_find_object*) noexcept;

namespace perfschema::run {

thread_local constinit ScriptCall t_script_call = {};
PFS_SET_IN_EVERY_PROCESS bool (*g_ask_for_script_call)(ScriptCall* call) = nullptr;

namespace {

constexpr size_t kModules = 1024;
constinit Module modules[kModules] = {};
std::atomic<size_t> module_count{0};
SmallLock lock;  // of modules

char long_path[PATH_MAX] = "";
PFS_SET_IN_EVERY_PROCESS constinit StartPath program(long_path);

struct SiteNode : Mapped<SiteNode> {
  Site site;
};
constinit AddressMap<SiteNode, 12> sites = {};
constexpr Site kNowhere = {"unknown+0x0", nullptr, 0, nullptr};

char* Copy(const char* text, size_t bytes) {
  auto* const copy = static_cast<char*>(std::malloc(bytes + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, text, bytes);
  copy[bytes] = 0;
  return copy;
}

// Returns the file name without ".so" and what follows it.
std::string_view ShortName(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (const size_t end = name.find(".so"); end != std::string_view::npos && end > 0) name = name.substr(0, end);
  return name.empty() ? "unknown" : name;
}

// Finds the build-id in the notes of a mapped file.
void ReadBuildId(uintptr_t begin, uintptr_t base, uintptr_t end, char* text, size_t size) {
  text[0] = 0;
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(begin);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(begin + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    if (segments[i].p_type != PT_NOTE) continue;
    uintptr_t at = base + segments[i].p_vaddr;
    const uintptr_t stop = at + segments[i].p_memsz;
    while (stop <= end && at + sizeof(ElfW(Nhdr)) < stop) {
      const auto* const note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const auto* const bytes = reinterpret_cast<const uint8_t*>(note + 1) + ((note->n_namesz + 3) & ~3u);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4) {
        for (size_t k = 0; k < note->n_descsz && 2 * k + 3 <= size; ++k) std::snprintf(text + 2 * k, 3, "%02x", bytes[k]);
        return;
      }
      at = reinterpret_cast<uintptr_t>(bytes) + ((note->n_descsz + 3) & ~3u);
    }
  }
}

const Module* FindModule(uintptr_t begin, uintptr_t base, const char* path) {
  const size_t count = module_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    if (modules[i].begin == begin && modules[i].base == base && std::strcmp(modules[i].path, path) == 0) return &modules[i];
  }
  return nullptr;
}

template <size_t N>
void CopyClipped(char (&to)[N], std::string_view text, size_t most) {
  perfschema::CopyClipped(to, text, std::min(most, N - 1));
}

// Finds an object before glibc 2.35. dladdr() would take the lock of loading: the caller may have that of the list, for which a thread
// waits that is unloading.
const link_map* MapByHeaders(const void* address) {
  struct Search {
    uintptr_t address;
    const link_map* map;
  } search{reinterpret_cast<uintptr_t>(address), nullptr};
  const auto look = [](dl_phdr_info* object, size_t, void* at) {
    auto& its = *static_cast<Search*>(at);
    const void* dynamic = nullptr;
    bool is_in = false;
    for (size_t i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = object->dlpi_phdr[i];
      const uintptr_t begin = object->dlpi_addr + header.p_vaddr;
      is_in = is_in || (header.p_type == PT_LOAD && its.address - begin < header.p_memsz);
      if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const void*>(begin);
    }
    if (!is_in) return 0;
    for (its.map = FirstObject(); its.map != nullptr && its.map->l_ld != dynamic;) its.map = its.map->l_next;
    return 1;
  };
  (void)dl_iterate_phdr(look, &search);
  return search.map;
}

constexpr size_t kMostComponent = 12;  // legal in every family (wait/synch/mutex/)

}  // namespace

PFS_IN_EVERY_PROCESS void StartSites() {
  g_text_of_code = [](const void* address) { return SiteOf(address)->text; };
  program.Set([](char* to, size_t bytes) { return static_cast<size_t>(std::max<ssize_t>(readlink("/proc/self/exe", to, bytes), 0)); });
}

const link_map* MapOf(const void* address) {
  if (!PFS_HAS(_dl_find_object)) return MapByHeaders(address);
  dl_find_object found;
  return _dl_find_object(const_cast<void*>(address), &found) == 0 ? found.dlfo_link_map : nullptr;
}

const Module* ModuleOf(const void* address) {
  dl_find_object found;
  if (_dl_find_object(const_cast<void*>(address), &found) != 0) return nullptr;
  const link_map* const map = found.dlfo_link_map;
  const auto begin = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  const auto end = reinterpret_cast<uintptr_t>(found.dlfo_map_end);
  // The name of the program itself is empty.
  const char* const path = map->l_name == nullptr || map->l_name[0] == 0 ? program.text() : map->l_name;
  if (const Module* known = FindModule(begin, map->l_addr, path); known != nullptr) return known;
  const SmallLock::Guard guard(lock);
  if (const Module* known = FindModule(begin, map->l_addr, path); known != nullptr) return known;
  const size_t count = module_count.load(std::memory_order_relaxed);
  if (count == kModules) return nullptr;
  char build_id[64];
  ReadBuildId(begin, map->l_addr, end, build_id, sizeof build_id);
  const std::string_view name = ShortName(path);
  Module& module = modules[count];
  module = {begin, end, map->l_addr, Copy(path, std::strlen(path)), Copy(name.data(), name.size()), Copy(build_id, std::strlen(build_id))};
  if (module.path == nullptr || module.name == nullptr || module.build_id == nullptr) return nullptr;
  module_count.store(count + 1, std::memory_order_release);  // pairs with FindModule
  return &module;
}

const Site* SiteOf(const void* return_address) {
  const auto pc = reinterpret_cast<uintptr_t>(return_address);
  if (SiteNode* const known = sites.Find(pc); __builtin_expect(known != nullptr, 1)) return &known->site;
  const Module* const module = ModuleOf(return_address);
  const uint64_t offset = module != nullptr ? pc - module->base : pc;
  char name[40], text[80];
  CopyClipped(name, module != nullptr ? module->name : "unknown", sizeof name - 1);
  const int bytes = std::snprintf(text, sizeof text, "%s+0x%lx", name, static_cast<unsigned long>(offset));
  const SmallLock::Guard guard(sites.lock);
  if (SiteNode* const known = sites.FindLocked(pc); known != nullptr) return &known->site;
  const char* const copy = Copy(text, static_cast<size_t>(bytes));
  if (copy == nullptr) return &kNowhere;
  SiteNode* const made = sites.Add(pc, [=](SiteNode& fresh) { fresh.site = {copy, module, offset, nullptr}; });
  return made != nullptr ? &made->site : &kNowhere;
}

pfs_key_t KeyOf(Register family, const Module* module, std::string_view name, const char* documentation) {
  char component[kMostComponent + 1];
  CopyClipped(component, module != nullptr ? module->name : "unknown", kMostComponent);
  return KeyOfNamed(family, component, name, documentation);
}

pfs_key_t KeyOfNamed(Register family, const char* component, std::string_view name, const char* documentation, uint32_t flags) {
  char instrument[81];
  CopyClipped(instrument, name, sizeof instrument - 1);
  pfs_key_t key = 0;
  pfs_instrument_info info = {&key, instrument, flags, documentation};
  family(component, &info, 1);
  // performance_schema=OFF, or no memory: from here on all calls are plain.
  if (__builtin_expect(key == 0, 0) && IsOff()) g_runtime.run_is_off = true;
  return key;
}

pfs_key_t KeyOfPlace(Register family, const Module* module, uint64_t offset, bool is_data, const char* kind, const char* what,
                     const char* relation) {
  char name[64], documentation[256];
  std::snprintf(name, sizeof name, "%s%s+0x%lx", kind, is_data ? "data" : "code", static_cast<unsigned long>(offset));
  std::snprintf(documentation, sizeof documentation, "%s %s %s+0x%lx build-id=%s", what, relation,
                module != nullptr ? module->path : "unknown", static_cast<unsigned long>(offset),
                module != nullptr ? module->build_id : "");
  return KeyOf(family, module, name, documentation);
}

pfs_key_t KeyOfObject(Register family, const void* object, const Site& site, const char* kind, const char* noun) {
  const Module* const holder = ModuleOf(object);
  if (holder == nullptr) return KeyOfPlace(family, site.module, site.offset, false, kind, noun, "first used at");
  return KeyOfPlace(family, holder, reinterpret_cast<uintptr_t>(object) - holder->base, true, kind, noun, "at");
}

void NameThread(std::string_view component, std::string_view name) {
  char full[120];
  size_t bytes = component.copy(full, sizeof full / 2);
  full[bytes++] = '/';
  bytes += name.copy(full + bytes, sizeof full - 1 - bytes);
  full[bytes] = 0;
  (void)pfs_set_thread_name(full);
}

}  // namespace perfschema::run
