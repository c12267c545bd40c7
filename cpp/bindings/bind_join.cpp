// bindings/bind_join.cpp: a call of a function of libperfschema-run.so in another process.
#include "call_in_process.h"
#include "gil.h"
#include "pybind.h"  // comes first

namespace perfschema::bindings {

namespace {
py::object CallIn(pid_t pid, const std::string& library, const std::string& function, const std::string& text, double seconds, bool is_dry,
                  bool checks_thread) {
  const CallInProcess wanted{pid, library, function, text, seconds, is_dry, checks_thread};
  CallResult result;
  RaiseIfBad(WithoutGil([&] { return Call(wanted, &result); }));
  return py::make_tuple(result.rc, result.stopped_seconds);
}
}  // namespace

void BindJoin(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  m.def("call_in_process", &CallIn, py::arg("pid"), py::arg("library"), py::arg("function"), py::arg("text"), py::arg("seconds"),
        py::arg("is_dry"), py::arg("checks_thread"));
}

}  // namespace perfschema::bindings
