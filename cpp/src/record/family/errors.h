// record/family/errors.h: errors that programs register by number, and how often each one was raised and handled
// (semantics.md L1, L2).
//
// A registered error is an entry of kClasses: it has a column in every row of cells. All other numbers count in the column of the
// instrument `error`, the row whose ERROR_NUMBER is NULL.
//
// A probe finds a number in a hash table, without a lock. Only the instrument `error` of the setup filters errors.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace perfschema {

// Makes the private table of numbers, after the instruments of the start. Called once under the cold lock.
bool StartErrors();

// Registers an error. Returns ok without a row of its own if pfs is off, or if there are
// performance_schema_error_size rows. Threads: any thread.
// `is_global`: it counts for the total only. The same registration again changes nothing. kExists: the number has
// another name.
Status RegisterError(int32_t number, std::string_view name, std::string_view sqlstate, bool is_global);

// Returns the number of an error that has only a name. The number is made from the name, so it is the same in every
// process, unless another error has it. The first call registers the error.
int32_t NumberOfNamedError(std::string_view name);
inline constexpr int32_t kFirstNamedError = 0x40000000;

// Count an error in the calling thread. Probes; they preserve errno.
void CountRaised(int32_t number);
void CountHandled(int32_t number);

}  // namespace perfschema
