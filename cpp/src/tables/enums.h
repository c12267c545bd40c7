// tables/enums.h: the enums that columns of several tables have.
#pragma once

#include "snapshot/rows.h"
#include "table/sql_types.h"

namespace perfschema {

template <>
struct EnumNames<NestingType> {
  static constexpr std::string_view kValues[] = {"TRANSACTION", "STATEMENT", "STAGE", "WAIT"};
};
template <>
struct EnumNames<Engine> {
  static constexpr std::string_view kValues[] = {"PRIMARY", "SECONDARY"};
};
template <>
struct EnumNames<TransactionState> {
  static constexpr std::string_view kValues[] = {"ACTIVE", "COMMITTED", "ROLLED BACK"};
};
template <>
struct EnumNames<AccessMode> {
  static constexpr std::string_view kValues[] = {"READ ONLY", "READ WRITE"};
};

}  // namespace perfschema
