// bindings/bind_setup.cpp: changes of setup tables, start-time options, account and name of the thread.
#include <pybind11/stl.h>

#include <cstring>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/like.h"
#include "gil.h"
#include "greenlets.h"
#include "perfschema/server.h"
#include "pybind.h"  // comes first
#include "setup/rules.h"
#include "table/registry.h"

namespace perfschema::bindings {

namespace {

// The codes of the C API are those of Status.
void RaiseIfBadCode(int rc) {
  if (rc != PFS_OK) throw StatusError(Status(static_cast<Code>(rc), pfs_last_error()));
}

using Conditions = std::vector<std::tuple<std::string, std::string, bool>>;
using Assignments = std::vector<std::pair<std::string, std::optional<std::string>>>;

// Calls change(table, where, values) without the GIL. Only a column can be unknown in a known table.
template <typename Change>
void Apply(const std::string& name, const Conditions& conditions, const Assignments& assignments, Change change) {
  const NamedTable* table = nullptr;
  RaiseIfBad(FindTable(name, &table), "UnknownTable");
  std::vector<Condition> where;
  for (const auto& [column, pattern, like] : conditions) where.push_back({column, pattern, like});
  std::vector<Assignment> values;
  for (const auto& [column, value] : assignments) values.push_back({column, value});
  Status status = WithoutGil([&] { return change(*table, where, values); });
  const bool no_column = status.code() == Code::kNotFound;
  RaiseIfBad(std::move(status), no_column ? "UnknownColumn" : nullptr);
}

uint64_t Update(const std::string& name, const Conditions& conditions, const Assignments& assignments) {
  uint64_t changed = 0;
  Apply(name, conditions, assignments,
        [&](const auto& table, const auto& where, const auto& values) { return UpdateTable(table, where, values, &changed); });
  return changed;
}

void Insert(const std::string& name, const Assignments& values) {
  Apply(name, {}, values, [](const auto& table, const auto&, const auto& row) { return InsertRow(table, row); });
}

uint64_t Delete(const std::string& name, const Conditions& conditions) {
  uint64_t deleted = 0;
  Apply(name, conditions, {}, [&](const auto& table, const auto& where, const auto&) { return DeleteRows(table, where, &deleted); });
  return deleted;
}

// Calls change() in an outsider's critical section, and returns its result.
py::object InOutsiderSection(const py::function& change) {
  py::object result;
  std::exception_ptr error;  // must not pass through the library, which has no exceptions
  RaiseIfBad(ChangeFromOutside([&] {
    try {
      result = change();
    } catch (...) {
      error = std::current_exception();
    }
    return Status();
  }));
  if (error) std::rethrow_exception(error);
  return result;
}

std::vector<bool> Matches(const std::vector<std::string>& texts, const std::string& pattern) {
  std::vector<bool> result;
  result.reserve(texts.size());
  for (const std::string& text : texts) result.push_back(Like(text, pattern));
  return result;
}

// Sets a column of processlist. None: it becomes NULL.
void SetProcesslist(const std::string& column, const std::variant<std::monostate, int64_t, std::string>& value) {
  NameThisThreadOnce();
  const auto* number = std::get_if<int64_t>(&value);
  const auto* text = std::get_if<std::string>(&value);
  if (column == "id" && text == nullptr) return pfs_thread_set_id(number != nullptr ? static_cast<uint64_t>(*number) : 0);
  if (column == "start_time" && text == nullptr) return pfs_thread_set_start_time(number != nullptr ? static_cast<time_t>(*number) : 0);
  if (column == "peer_port" && text == nullptr && (number == nullptr || (*number >= 0 && *number <= 65535))) {
    return pfs_thread_set_peer_port(number != nullptr ? static_cast<uint16_t>(*number) : 0);
  }
  if (number == nullptr) {
    const char* const shown = text != nullptr ? text->c_str() : nullptr;
    if (column == "info") return pfs_thread_set_info(shown, text != nullptr ? text->size() : 0);
    for (const auto& [name, set] :
         std::initializer_list<std::pair<const char*, void (*)(const char*)>>{{"db", pfs_thread_set_db},
                                                                              {"command", pfs_thread_set_command},
                                                                              {"state", pfs_thread_set_state},
                                                                              {"connection_type", pfs_thread_set_connection_type},
                                                                              {"resource_group", pfs_thread_set_resource_group}}) {
      if (column == name) return set(shown);
    }
  }
  throw StatusError(Status(Code::kInvalidArgument, "bad value for " + column));
}

}  // namespace

void BindSetup(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  m.def("update", Update, py::arg("table"), py::arg("conditions"), py::arg("assignments"));
  m.def("insert", Insert, py::arg("table"), py::arg("values"));
  m.def("delete", Delete, py::arg("table"), py::arg("conditions"));
  m.def(
      "adopt", [](const std::string& path) { RaiseIfBad(AdoptSegmentFile(path), "AttachError"); }, py::arg("path"));
  m.def("in_outsider_section", InOutsiderSection, py::arg("change"));
  m.def(
      "may_match", [](const std::string& pattern) { return MayMatch(pattern, IsAnyFamily); }, py::arg("pattern"));
  m.def("matches", Matches, py::arg("texts"), py::arg("pattern"));
  m.def(
      "configure", [](const std::string& options) { RaiseIfBadCode(pfs_init(options.c_str())); }, py::arg("options"));
  m.def(
      "set_account",
      [](const std::string& user, const std::string& host) {
        NameThisThreadOnce();
        RaiseIfBadCode(pfs_set_account(user.c_str(), host.c_str()));
      },
      py::arg("user"), py::arg("host"));
  m.def(
      "set_thread_name",
      [](const std::string& name) {
        RaiseIfBadCode(pfs_set_thread_name(name.c_str()));
        KeepThreadName();
      },
      py::arg("name"));
  m.def("set_processlist", SetProcesslist, py::arg("column"), py::arg("value"));
  // Called by the parent; the bytes are for thread_begin in the new thread.
  m.def("thread_origin", [] {
    NameThisThreadOnce();
    pfs_thread_origin_t origin{};
    pfs_thread_describe(&origin);
    return py::bytes(reinterpret_cast<const char*>(&origin), sizeof origin);
  });
  m.def(
      "thread_begin",
      [](const std::string& given, const std::string& name, const std::string& instrument) {
        pfs_thread_origin_t origin{};
        if (IsGreen() && CurrentGreenlet() != 0) return;  // a greenlet must not rename the thread that it runs in
        if (given.size() != sizeof origin) throw StatusError(Status(Code::kInvalidArgument, "thread_begin takes what thread_origin gave"));
        std::memcpy(&origin, given.data(), sizeof origin);
        const pfs_key_t key = instrument.empty() ? 0 : RegisterName(NameFamily::kThread, instrument);
        const int rc = pfs_thread_begin(key, key != 0 ? nullptr : name.c_str(), &origin);
        KeepThreadName();
        if (rc != PFS_E_STATE) RaiseIfBadCode(rc);  // a thread that describes itself
      },
      py::arg("origin"), py::arg("name"), py::arg("instrument"));
  // Called by a thread as its last act: its row is gone when the thread is joined.
  m.def("thread_end", [] {
    if (!(IsGreen() && CurrentGreenlet() != 0)) pfs_thread_delete(pfs_thread_own());
  });
  m.def(
      "thread_instrument", [](const std::string& name) { return FullName(NameFamily::kThread, name); }, py::arg("name"));
  m.def("segment_path", [] { return std::string(pfs_segment_path()); });
  m.def(
      "cycle_rate", [](const std::string& boot) { return MeasuredCycleRate(boot); }, py::arg("boot"));
}

}  // namespace perfschema::bindings
