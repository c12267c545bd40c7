// tables/enums.h: enums of columns that several tables have.
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

// OBJECT_TYPE of rules and of stored programs: the first five of ObjectType.
enum class RuleType : uint8_t {};  // ObjectType - 1
template <>
struct EnumNames<RuleType> {
  static constexpr std::string_view kValues[] = {"EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER"};
};
constexpr RuleType RuleTypeOf(ObjectType type) { return static_cast<RuleType>(static_cast<uint8_t>(type) - 1); }
static_assert(RuleTypeOf(ObjectType::kEvent) == RuleType{0} && RuleTypeOf(ObjectType::kTrigger) == RuleType{4});

}  // namespace perfschema
