// bindings/bind_digest.cpp: digests of statements, without a statement.
#include <vector>

#include "base/digest.h"
#include "gil.h"
#include "pybind.h"  // comes first

namespace perfschema::bindings {

namespace {
py::object Digest(const std::string& text, size_t limit, const std::string& normalizer, const std::string& dialect) {
  Normalizer made;
  RaiseIfBad(Normalizer::Make(normalizer, &made));
  const Dialect language = DialectNamed(dialect);
  std::vector<uint8_t> tokens(limit);
  size_t size = 0;
  std::string shown;
  char hash[64];
  WithoutGil([&] {
    size = made.Tokens(text, language, tokens);
    tokens.resize(size);
    shown = DigestText(tokens);
    DigestHash(tokens, hash);
  });
  if (size == 0) return py::none();
  return py::make_tuple(py::str(hash, sizeof(hash)), py::bytes(shown));
}
}  // namespace

void BindDigest(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  m.def("digest", &Digest, py::arg("text"), py::arg("limit"), py::arg("normalizer"), py::arg("dialect"));
}

}  // namespace perfschema::bindings
