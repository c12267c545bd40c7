// bindings/bind_program.cpp: declarations of the program. Thin: users see python/pfs/_record/program.py and error_log.py.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "perfschema/server.h"
#include "pybind.h"  // comes first

namespace perfschema::bindings {
namespace {

using Text = std::optional<std::string>;
const char* AsC(const Text& text) { return text ? text->c_str() : nullptr; }
const char* AsC(const std::string& text) { return text.c_str(); }
template <typename Number>
Number AsC(Number number) {
  return number;
}

void RaiseIfBadCode(int rc) {
  if (rc != PFS_OK) throw StatusError(Status(static_cast<Code>(rc), pfs_last_error()));
}

// Defines a Python function with these arguments that makes one call of C. It first names the thread: the call may be the thread's first
// contact with pfs.
template <typename... Arguments, typename... Parameters>
void Def(py::module_& m, const char* name, int (*call)(Parameters...)) {
  m.def(name, [call](const Arguments&... arguments) {
    NameThisThreadOnce();
    RaiseIfBadCode(call(static_cast<Parameters>(AsC(arguments))...));
  });
}

void RegisterVariable(const std::string& name, const Text& value, int type, int scope, const Text& minimum, const Text& maximum,
                      const std::string& documentation) {
  const pfs_variable_info_t info{
      name.c_str(), AsC(value),           static_cast<pfs_variable_type>(type), static_cast<pfs_variable_scope>(scope), AsC(minimum),
      AsC(maximum), documentation.c_str()};
  RaiseIfBadCode(pfs_register_variable(&info, 1));
}

void SetConnectAttrs(const std::vector<std::pair<std::string, Text>>& attributes) {
  NameThisThreadOnce();
  std::vector<pfs_connect_attr_t> all;
  for (const auto& [name, value] : attributes) all.push_back({name.c_str(), AsC(value)});
  RaiseIfBadCode(pfs_thread_set_connect_attrs(all.data(), static_cast<int>(all.size())));
}

// Sets a row from (locked, failed attempts, remaining attempts, days, since, until).
void SetAccountLock(const std::string& user, const std::string& host,
                    const std::optional<std::tuple<bool, int, int, int, int64_t, int64_t>>& lock) {
  if (!lock) return RaiseIfBadCode(pfs_account_lock_set(user.c_str(), host.c_str(), nullptr));
  const auto& [locked, failed, remaining, days, since, until] = *lock;
  const pfs_account_lock_t given{locked ? 1 : 0, failed, remaining, days, since, until};
  RaiseIfBadCode(pfs_account_lock_set(user.c_str(), host.c_str(), &given));
}

}  // namespace

void BindProgram(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  m.def("variable_register", RegisterVariable);
  m.def("variable_set", [](const std::string& name, const Text& value, int source, const Text& path) {
    NameThisThreadOnce();
    RaiseIfBadCode(pfs_variable_set(name.c_str(), AsC(value), static_cast<pfs_variable_source>(source), AsC(path)));
  });
  Def<std::string, std::string, Text>(m, "variable_attribute", pfs_variable_set_attribute);
  Def<std::string>(m, "variable_unregister", pfs_unregister_variable);
  Def<std::string, Text>(m, "thread_variable_set", pfs_thread_set_variable);
  Def<std::string>(m, "thread_variable_forget", pfs_thread_forget_variable);
  m.def("user_variable_set", [](const std::string& name, const Text& value) {
    NameThisThreadOnce();
    RaiseIfBadCode(pfs_thread_set_user_variable(name.c_str(), value ? value->data() : nullptr, value ? value->size() : 0));
  });
  Def<std::string>(m, "user_variable_forget", pfs_thread_forget_user_variable);

  m.def("connect_attrs", SetConnectAttrs);
  Def<std::string, Text, bool>(m, "host_seen", pfs_host_seen);
  Def<std::string, int>(m, "host_error", pfs_host_error);
  Def<std::string>(m, "host_forget", pfs_host_forget);
  Def<std::string, std::string>(m, "login_failed", pfs_login_failed);
  Def<std::string, std::string>(m, "login_succeeded", pfs_login_succeeded);
  m.def("account_lock", SetAccountLock);

  m.def("meter_register", [](const std::string& name, uint32_t frequency, bool enabled, const Text& description) {
    pfs_key_t key = 0;
    RaiseIfBadCode(pfs_register_meter(name.c_str(), frequency, enabled ? 1 : 0, AsC(description), &key));
    return key;
  });
  m.def("meter_frequency", pfs_meter_frequency);
  Def<std::string, std::string, int, bool, Text, Text>(m, "metric_register", pfs_register_metric);
  m.def("logger_register", [](const std::string& name, int level, const Text& description) {
    pfs_key_t key = 0;
    RaiseIfBadCode(pfs_register_logger(name.c_str(), static_cast<pfs_log_level>(level), AsC(description), &key));
    return key;
  });
  m.def("logger_level", [](pfs_key_t key) { return static_cast<int>(pfs_logger_level(key)); });
  Def<std::string, Text, uint32_t>(m, "task_register", pfs_register_task);
  Def<std::string>(m, "task_begin", pfs_task_begin);
  Def<std::string, bool>(m, "task_end", pfs_task_end);
  Def<std::string, std::string, std::string, Text>(m, "function_register", pfs_register_function);
  Def<std::string, int>(m, "function_use", pfs_function_use);
  m.def("row_unregister",
        [](int kind, const std::string& name) { RaiseIfBadCode(pfs_unregister_row(static_cast<pfs_row_kind>(kind), name.c_str())); });

  m.def("log", [](int priority, const Text& code, const Text& subsystem, const std::string& message) {
    NameThisThreadOnce();
    const int rc = pfs_log_bytes(static_cast<pfs_log_priority>(priority), AsC(code), AsC(subsystem), message.data(), message.size());
    if (rc != PFS_E_FULL) RaiseIfBadCode(rc);  // a lost event is counted
  });
}

}  // namespace perfschema::bindings
