// run/loader/own_calls.h: the calls that this library makes for itself lead to the C library's own functions.
//
// The dynamic linker binds a call of memcpy() or mmap() to the first object that defines the name, which may be the program: a sanitizer
// with a static runtime, a fault injector, an allocator. Such a function may lock a mutex, which is instrumented, and so on without an end.
// So each function that this library imports is bound again if its address is outside the C library. The list is the table of
// relocations. Variables stay: the C library itself uses those of the program. real.cpp has the functions that this library also replaces.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace perfschema::run {

// The objects of the C library in this process. Nothing here calls a function that is imported. Threads: immutable.
class CLibrary {
 public:
  CLibrary();
  // Returns whether the address is in one of them.
  bool Has(const void* address) const;
  // Returns its function, or nullptr. `name` ends with a zero.
  void* FunctionOf(const char* name) const;
  // Binds the calls of an object to it. REQUIRES: the object has been relocated.
  void BindCallsOf(const link_map& object) const;
  // Binds the calls of an object to the replacements here: those that lead to it or nowhere yet, and those of a client to the client's own
  // functions. What leads to another object's function of its names stays: that object replaces it. REQUIRES: as before.
  void BindCallsHere(const link_map& object) const;
  // Binds the calls that lead here to where they led. REQUIRES: as before.
  void BindCallsBack(const link_map& object) const;
  // Makes the weak references of an object null that lead here, and are to functions that no other object has. REQUIRES: as before.
  void UnbindAbsent(const link_map& object, bool (*is_meant)(const char* name)) const;
  // Returns whether it comes before an object in the order in which the dynamic linker looks for symbols.
  bool IsBefore(const link_map& object) const;

 private:
  template <typename Find>
  void Bind(const link_map& object, Find find) const;
  bool SetRelocated(const link_map& object, int protection) const;

  static constexpr size_t kMostParts = 4;
  struct Part {
    const link_map* object;
    uintptr_t begin, end;
  };
  size_t count_ = 0;
  Part parts_[kMostParts];
};

struct SymbolName;
// Returns the function of that name that a program without this library would call, or nullptr. REQUIRES: the list of objects does not
// change.
void* FunctionWithoutUs(const SymbolName& name);

// Returns whether a text begins with another one. Calls nothing: for the start.
bool BeginsWith(const char* text, const char* with);

// Returns whether the name is one of functions.def, and no function of it was found. REQUIRES: they have been looked for.
bool LacksFunction(const char* name);

}  // namespace perfschema::run
