// table/facts.h: functions that the files of this folder share: the declaration of a TableFacts, and errors that say
// what is legal.
#pragma once

#include <string>
#include <string_view>

#include "snapshot/snapshot.h"
#include "table/registry.h"
#include "table/table_def.h"

namespace perfschema {

const TableDef* DefOf(const TableFacts& table);  // nullptr: unknown table
Status NoSuchTable(std::string_view name);
Status NotAllowed(const TableFacts& table, const char* operation);
std::string OperationNames(uint32_t operations);  // "SELECT, UPDATE"
// Returns the cold lock if `view` is this process's own segment, else nothing.
Snapshot::Quiesce QuiesceFor(const SegmentView& view);

}  // namespace perfschema
