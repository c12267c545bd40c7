// tables/enums.h: enums of columns that several tables have.
#pragma once

#include "snapshot/events.h"
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

// TIMED of instruments.
enum class TimedValue : uint8_t { kYes = 0, kNo, kContended, kSampled, kState };
template <>
struct EnumNames<TimedValue> {
  static constexpr std::string_view kValues[] = {"YES", "NO", "CONTENDED", "SAMPLED", "STATE"};
};
constexpr TimedValue ValueOf(Timing timing) {
  return timing == Timing::kNo ? TimedValue::kNo : timing == Timing::kYes ? TimedValue::kYes : static_cast<TimedValue>(timing);
}
constexpr Timing TimingOf(TimedValue value) {
  return value == TimedValue::kNo ? Timing::kNo : value == TimedValue::kYes ? Timing::kYes : static_cast<Timing>(value);
}

static_assert(static_cast<int>(TimedValue::kContended) == static_cast<int>(Timing::kContended));
static_assert(static_cast<int>(TimedValue::kSampled) == static_cast<int>(Timing::kSampled));
static_assert(static_cast<int>(TimedValue::kState) == static_cast<int>(Timing::kState));

template <>
struct EnumNames<Step> {
  static constexpr std::string_view kValues[] = {"FULL", "SAMPLED", "COUNTED", "OFF"};
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
