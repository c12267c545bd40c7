// bindings/bind_setup.cpp: updates of setup tables, start-time options, account and name of the thread.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/like.h"
#include "bindings.h"
#include "perfschema/pfs.h"
#include "table/registry.h"

namespace perfschema::bindings {

namespace {

// The codes of the C API are those of Status.
void RaiseIfBadCode(int rc) {
  if (rc != PFS_OK) throw StatusError(Status(static_cast<Code>(rc), pfs_last_error()));
}

uint64_t Update(const std::string& name, const std::vector<std::tuple<std::string, std::string, bool>>& conditions,
                const std::vector<std::pair<std::string, std::optional<std::string>>>& assignments) {
  const TableFacts* table = nullptr;
  RaiseIfBad(FindTable(name, &table), "UnknownTable");
  std::vector<Condition> where;
  for (const auto& [column, pattern, like] : conditions) where.push_back({column, pattern, like});
  std::vector<Assignment> changes;
  for (const auto& [column, value] : assignments) changes.push_back({column, value});
  uint64_t changed = 0;
  Status status;
  {
    py::gil_scoped_release released;
    status = UpdateTable(*table, where, changes, &changed);
  }
  RaiseIfBad(std::move(status));
  return changed;
}

std::vector<bool> Matches(const std::vector<std::string>& texts, const std::string& pattern) {
  std::vector<bool> result;
  result.reserve(texts.size());
  for (const std::string& text : texts) result.push_back(Like(text, pattern));
  return result;
}

}  // namespace

void BindSetup(py::module_& m) {
  m.def("update", Update, py::arg("table"), py::arg("conditions"), py::arg("assignments"));
  m.def("matches", Matches, py::arg("texts"), py::arg("pattern"));
  m.def("configure", [](const std::string& options) { RaiseIfBadCode(pfs_init(options.c_str())); }, py::arg("options"));
  m.def(
      "set_account", [](const std::string& user, const std::string& host) { RaiseIfBadCode(pfs_set_account(user.c_str(), host.c_str())); },
      py::arg("user"), py::arg("host"));
  m.def(
      "set_thread_name",
      [](const std::string& name) {
        RaiseIfBadCode(pfs_set_thread_name(name.c_str()));
        KeepThreadName();
      },
      py::arg("name"));
  m.def("segment_path", [] { return std::string(pfs_segment_path()); });
}

}  // namespace perfschema::bindings
