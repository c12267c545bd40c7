// table/errors.h: errors that say what is legal, and other functions that the files of this folder share.
#pragma once

#include <string>
#include <string_view>

#include "snapshot/snapshot.h"
#include "table/registry.h"
#include "table/table_def.h"

namespace perfschema {

Status NotAllowed(const NamedTable& table, const char* operation);
std::string OperationNames(uint32_t operations);  // "SELECT, UPDATE"
// Returns the cold lock if `view` is this process's own segment, else nothing.
Snapshot::Quiesce QuiesceFor(const SegmentView& view);

}  // namespace perfschema
