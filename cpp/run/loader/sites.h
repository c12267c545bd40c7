// run/loader/sites.h: places in the program's code and data: which module, which offset, which instrument.
//
// A module is a file that the dynamic linker has mapped. It is found with _dl_find_object(), which takes no lock. A name such as
// code+0x1f3b stays the same in every run; the reader turns it into a symbol (python/pfs/_read/places/symbols.py). For that the
// DOCUMENTATION of an instrument has the path, the offset and the build-id.
#pragma once

#include <link.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "perfschema/pfs.h"
#include "record/engine/sources.h"

namespace perfschema::run {

struct Module {
  uintptr_t begin, end, base;  // base: the addresses of its symbols are relative to it
  const char* path;
  const char* name;                        // file name without ".so" and version
  const char* build_id;                    // hexadecimal; "" if it has none
  mutable const void* wrappers = nullptr;  // run/loader/wrappers.cpp; nullptr: not read yet. Any thread, by std::atomic_ref
};

// A place that calls a replacement. Sites live as long as the process.
struct Site {
  const char* text;      // "module+0x1f3b": SOURCE
  const Module* module;  // nullptr = code that is in no file
  uint64_t offset;
  const char* name;               // of the objects that it makes; nullptr: they are named by the place
  mutable pfs_key_t threads = 0;  // the instrument of threads that start here; 0 = not registered yet. Any thread, by std::atomic_ref
  // By kind (run/calls/objects.h): the class of the objects that are named after this place; 0 = not known yet. Any thread, by
  // std::atomic_ref.
  static constexpr uint32_t kKinds = 21;
  mutable uint32_t classes[kKinds] = {};
  // Whether the code is in a wrapper (run/loader/wrappers.h). Any thread, by std::atomic_ref.
  enum class InWrapper : uint8_t { kUnknown, kNo, kYes };
  mutable InWrapper in_wrapper = InWrapper::kUnknown;
  const char* prefix = nullptr;  // of what is named after this place; nullptr: that of its kind
};

// Returns the site of a return address. Lock-free; the first call of a site is slow.
const Site* SiteOf(const void* return_address);

// Returns the module of an address, or nullptr. Slow.
const Module* ModuleOf(const void* address);

// Returns the module's entry in the dynamic linker's list, or nullptr. Not for probes: with a glibc before 2.35 it takes a lock.
const link_map* MapOf(const void* address);

using perfschema::kIsCode;
using perfschema::kWholePlace;

// A SOURCE.
struct SourceLine {
  const char* file;  // lives as long as the process
  uint32_t line;
};

// Returns the SOURCE of the caller of a replacement. Its text is looked for when the place is new to a thread.
inline SourceLine SourceAt(const void* return_address) { return {static_cast<const char*>(return_address), kIsCode}; }

// The call of a script that this thread makes: its line, and its name as MODULE:LINE. An interpreter makes the calls that are replaced for
// it, and may not be asked any more when they come. Empty if none is known.
struct ScriptCall {
  SourceLine at;
  const Site* place;
};
extern thread_local constinit ScriptCall t_script_call __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Stores the call that the thread makes, which may be none. Returns false if the interpreter may not be asked now. nullptr: there is none
// that can be asked. Constant after start.
extern bool (*g_ask_for_script_call)(ScriptCall* call) __attribute__((visibility("hidden")));

// Returns the line of the script that makes the call, or else `at`.
inline SourceLine SourceOfScript(const SourceLine& at) { return t_script_call.at.file != nullptr ? t_script_call.at : at; }

// The function that registers a family, such as pfs_register_mutex().
using Register = int (*)(const char* component, pfs_instrument_info* info, int count);

// Returns the key of an instrument of the module. Names that are too long are clipped and end in a hash. Slow.
pfs_key_t KeyOf(Register family, const Module* module, std::string_view name, const char* documentation);

// Returns the key of what is named after a place in a module, which may be data or code: KIND and data+0x4010. The documentation is
// WHAT RELATION PLACE, such as "Mutex" "first used at". Slow.
pfs_key_t KeyOfPlace(Register family, const Module* module, uint64_t offset, bool is_data, const char* kind, const char* what,
                     const char* relation);

// Returns the key of an object: by its symbol if it lies in a module (data+0x4010), else by the place that made or first used it.
// `kind` stands before the place, such as "sem-"; `noun` is for the documentation. Slow.
pfs_key_t KeyOfObject(Register family, const void* object, const Site& site, const char* kind, const char* noun);

// Returns the key of an object that has a name of its own: COMPONENT/NAME. Slow.
pfs_key_t KeyOfNamed(Register family, const char* component, std::string_view name, const char* documentation, uint32_t flags = 0);

// Names the calling thread COMPONENT/NAME.
void NameThread(std::string_view component, std::string_view name);

// Notes the path of the program and makes the tables. Called once, at the start.
void StartSites();

}  // namespace perfschema::run

// Is where the program has called a replacement.
#define PFS_CALLER __builtin_return_address(0)
// The site of the caller of a replacement.
#define PFS_RUN_SITE (perfschema::run::SiteOf(PFS_CALLER))
