// bindings/bind_memory.cpp: blocks that Python code accounts for.
#include <pybind11/numpy.h>

#include <cstdio>
#include <memory>

#include "perfschema/pfs.h"
#include "pybind.h"  // comes first

namespace perfschema::bindings {
namespace {

// A block of memory of any kind: counted from its creation until it is freed, or collected.
// Threads: the GIL is held.
class MemoryBlock {
 public:
  MemoryBlock(uint32_t key, size_t size) : size_(size) {
    NameThisThreadOnce();
    key_ = pfs_memory_alloc(key, size, &owner_);
  }
  ~MemoryBlock() { Free(); }
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  size_t size() const { return Load(size_); }
  // Returns false if it was freed before. So do all methods below.
  bool Free() {
    return Alone(guard_, [this] {
      if (is_free_) return false;
      is_free_ = true;
      pfs_memory_free(key_, size_, owner_);
      return true;
    });
  }
  bool Resize(size_t size) {
    return Alone(guard_, [=, this] {
      if (is_free_) return false;
      key_ = pfs_memory_realloc(key_, size_, size, &owner_);
      Store(size_, size);
      return true;
    });
  }
  void Claim(bool takes) {
    Alone(guard_, [=, this] {
      if (!is_free_) key_ = pfs_memory_claim(key_, size_, &owner_, takes ? 1 : 0);
    });
  }

 private:
  [[no_unique_address]] Guard guard_;
  size_t size_;
  pfs_key_t key_ = 0;
  uint64_t owner_ = 0;
  bool is_free_ = false;
};

// ---- The arrays of numpy

// The struct that numpy expects in a capsule "mem_handler" (its C API of 1.22). An array keeps the capsule, so the handler that made
// it frees it.
struct NumpyHandler {
  char name[127];
  uint8_t version;
  struct {
    void* context;
    void* (*malloc)(void* context, size_t size);
    void* (*calloc)(void* context, size_t count, size_t size);
    void* (*realloc)(void* context, void* block, size_t size);
    void (*free)(void* context, void* block, size_t size);
  } allocator;
};

pfs_key_t KeyIn(void* context) { return static_cast<pfs_key_t>(reinterpret_cast<uintptr_t>(context)); }

py::capsule MakeNumpyHandler(uint32_t key) {
  auto handler = std::make_unique<NumpyHandler>();
  std::snprintf(handler->name, sizeof handler->name, "pfs");
  handler->version = 1;
  handler->allocator = {reinterpret_cast<void*>(static_cast<uintptr_t>(key)),
                        [](void* context, size_t size) { return pfs_malloc(KeyIn(context), size); },
                        [](void* context, size_t count, size_t size) { return pfs_calloc(KeyIn(context), count, size); },
                        [](void* context, void* block, size_t size) { return pfs_realloc(KeyIn(context), block, size == 0 ? 1 : size); },
                        [](void*, void* block, size_t) { pfs_free(block); }};
  auto capsule = py::capsule(handler.get(), "mem_handler",
                             [](PyObject* object) { delete static_cast<NumpyHandler*>(PyCapsule_GetPointer(object, "mem_handler")); });
  static_cast<void>(handler.release());
  return capsule;
}

// Sets the handler for arrays that are made from now on in this context (contextvars). Returns the previous handler.
py::object SetNumpyHandler(const py::object& handler) {
  constexpr int kSetHandler = 304;  // PyDataMem_SetHandler; numpy keeps this index
  const auto capsule = py::detail::import_numpy_core_submodule("multiarray").attr("_ARRAY_API").cast<py::capsule>();
  void** const functions = capsule.get_pointer<void*>();
  const auto set = reinterpret_cast<PyObject* (*)(PyObject*)>(functions[kSetHandler]);
  PyObject* const before = set(handler.ptr());
  if (before == nullptr) throw PythonError();
  return py::reinterpret_steal<py::object>(before);
}

}  // namespace

void BindMemory(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  m.def(
      "memory_key", [](const std::string& name) { return RegisterName(NameFamily::kMemory, name); }, py::arg("name"));
  m.def(
      "memory_instrument", [](const std::string& name) { return FullName(NameFamily::kMemory, name); }, py::arg("name"));
  m.def("numpy_handler", MakeNumpyHandler, py::arg("key"));
  m.def("set_numpy_handler", SetNumpyHandler, py::arg("handler"));
  py::class_<MemoryBlock>(m, "MemoryBlock", py::is_final())
      .def(py::init<uint32_t, size_t>(), py::arg("key"), py::arg("size"))
      .def_property_readonly("size", &MemoryBlock::size)
      .def("free", &MemoryBlock::Free)
      .def("resize", &MemoryBlock::Resize, py::arg("size"))
      .def("claim", &MemoryBlock::Claim, py::arg("takes"));
}

}  // namespace perfschema::bindings
