// run/calls/users_of_code.cpp: see users_of_code.h.
#include "run/calls/users_of_code.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

#include "run/loader/exported.h"
#include "run/loader/wrappers.h"
#include "run/python/python.h"

namespace perfschema::run {
namespace {

// Returns the line of the script that PHP runs. zend_get_executed_filename() looks at the frames of PHP and changes nothing. A build for
// threads has them in another place, and does not export `executor_globals`.
UserSite LineOfPhp(const void* address) {
  struct Php {
    const char* (*file)();
    uint32_t (*line)();
  };
  const link_map* const object = MapOf(address);
  if (object == nullptr || syscall(SYS_gettid) != getpid()) return {};
  const Exported exported(*object);
  if (exported.Find(SymbolName(std::string_view("executor_globals"))) == nullptr) return {};
  const Php php = {reinterpret_cast<const char* (*)()>(exported.FindFunction(SymbolName(std::string_view("zend_get_executed_filename")))),
                   reinterpret_cast<uint32_t (*)()>(exported.FindFunction(SymbolName(std::string_view("zend_get_executed_lineno"))))};
  if (php.file == nullptr || php.line == nullptr) return {};
  const uint32_t line = php.line();
  return line != 0 ? UserSite{php.file(), line} : UserSite{};
}

}  // namespace

UserSite UserOfCode(const void* address, bool is_first, bool* ask_again) {
  *ask_again = false;  // a call of Python that has a line lets all places ask
  if (g_has_python_layer) return {t_script_call.at.file, t_script_call.at.line};
  const Site& site = *SiteOf(address);
  *ask_again = site.module != nullptr;
  if (!*ask_again) return {};
  const std::string_view name(site.module->name);
  if (name.starts_with("php") || name.starts_with("libphp")) return LineOfPhp(address);
  // The names in a program's file are read only if the program goes on.
  if (is_first && !IsOfStreams(*site.module)) return {};
  *ask_again = IsInWrapper(site);
  return *ask_again ? UserSite{static_cast<const char*>(CallerOfWrapper(address)), kIsCode} : UserSite{};
}

}  // namespace perfschema::run
