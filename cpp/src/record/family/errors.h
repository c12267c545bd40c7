// record/family/errors.h: errors that programs register by number, and how often each was raised and handled (SEMANTICS L1, L2).
//
// A registered error is an entry of kClasses: it has a column in every row of cells. All other numbers count in the column of the
// instrument `error`, the row whose ERROR_NUMBER is NULL.
//
// A probe finds a number by a hash, without a lock. Of the setup only the instrument `error` filters errors.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace perfschema {

// Private table of numbers. After the instruments of the start. Under the cold lock, once.
bool StartErrors();

// Threads: any thread. No error, but no row of its own either: pfs is off, or performance_schema_error_size rows are there.
// `is_global`: it counts for the total only. The same again changes nothing; kExists: the number has another name.
Status RegisterError(int32_t number, std::string_view name, std::string_view sqlstate, bool is_global);

// The number of an error that has a name only: made from the name, and so the same in every process, unless another error has it.
// Registers it at first sight.
int32_t NumberOfNamedError(std::string_view name);
inline constexpr int32_t kFirstNamedError = 0x40000000;

// Counts one. Preserves errno. Probes: any thread, for itself.
void CountRaised(int32_t number);
void CountHandled(int32_t number);

}  // namespace perfschema
