// run/loader/giver.h: finds the library that a module of the program uses, without the dynamic linker, whose lock a probe must not take.
//
// A replacement of a client's function, such as sqlite3_step(), must find the client that its caller uses: a process may have several
// copies. The caller has called other functions of the client before, such as sqlite3_prepare_v2(), and the dynamic linker has written
// where they are into the caller's relocations. The caller holds these modules: none of them can go meanwhile.
#pragma once

#include <link.h>

#include <string_view>

namespace perfschema::run {

// Returns the module that gives the caller functions whose names begin with `prefix`, and that defines `wanted`; or nullptr if the caller's
// relocations do not say. This library is no such module. Lock-free.
const link_map* GiverOf(const link_map* caller, std::string_view prefix, const char* wanted);

}  // namespace perfschema::run
