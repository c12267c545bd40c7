// bindings/bind_memory.cpp: blocks that Python code accounts for.
#include "bindings.h"
#include "perfschema/pfs.h"

namespace perfschema::bindings {
namespace {

// A block that lives somewhere: counted from its making until it is freed, or collected.
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

  size_t size() const { return size_; }
  // False: it has been freed before. As all below.
  bool Free() {
    if (is_free_) return false;
    is_free_ = true;
    pfs_memory_free(key_, size_, owner_);
    return true;
  }
  bool Resize(size_t size) {
    if (is_free_) return false;
    key_ = pfs_memory_realloc(key_, size_, size, &owner_);
    size_ = size;
    return true;
  }
  void Claim(bool takes) {
    if (!is_free_) key_ = pfs_memory_claim(key_, size_, &owner_, takes ? 1 : 0);
  }

 private:
  size_t size_;
  pfs_key_t key_ = 0;
  uint64_t owner_ = 0;
  bool is_free_ = false;
};

}  // namespace

void BindMemory(py::module_& m) {
  m.def("memory_key", [](const std::string& name) { return RegisterName(NameFamily::kMemory, name); }, py::arg("name"));
  m.def("memory_instrument", [](const std::string& name) { return FullName(NameFamily::kMemory, name); }, py::arg("name"));
  py::class_<MemoryBlock>(m, "MemoryBlock", py::is_final())
      .def(py::init<uint32_t, size_t>(), py::arg("key"), py::arg("size"))
      .def_property_readonly("size", &MemoryBlock::size)
      .def("free", &MemoryBlock::Free)
      .def("resize", &MemoryBlock::Resize, py::arg("size"))
      .def("claim", &MemoryBlock::Claim, py::arg("takes"));
}

}  // namespace perfschema::bindings
