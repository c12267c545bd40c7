// table/column.h: one column of a table, and groups of columns.
//
//   col<&Row::event_id>("EVENT_ID", Unit::kNone, "Number of the event in its thread.")
//   col<&Row::stats, &IoStat::total>(...)      a path: members, member functions and functions, applied in sequence
#pragma once

#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/hash.h"
#include "table/fixed_text.h"
#include "table/sql_types.h"

namespace perfschema {

enum class Unit : uint8_t { kNone, kCount, kPicoseconds, kSeconds, kBytes, kTicks, kTicksPerSecond, kCycles };
inline constexpr std::string_view kUnitNames[] = {"", "count", "picoseconds", "seconds", "bytes", "ticks", "ticks per second", "cycles"};

// How the value of an interval follows from the readings at its ends, or from the values of its parts.
enum class Combine : uint8_t {
  kNone,     // it does not: names, settings, momentary values
  kSum,      // counts and sums: later minus earlier
  kLeast,    // unknown from a difference
  kMost,     // unknown from a difference, too
  kMean,     // SUM_... divided by the COUNT_... before it
  kDerived,  // computed from other columns, also of other rows; or measured at the read
};
inline constexpr std::string_view kCombineNames[] = {"", "sum", "least", "most", "mean", "derived"};

// How the values of one key in several processes merge into one value.
enum class Across : uint8_t {
  kNone,     // not decided: a column of the key, or of a table that is no summary
  kSum,      // the values add up
  kLeast,    // the smallest value that is not 0; 0 means that nothing was timed
  kMost,     // the largest value
  kMean,     // SUM_... divided by the COUNT_... before it
  kDerived,  // computed again from the merged rows
  kGauge,    // an amount in use: the values add up
  kBound,    // LOW_ and HIGH_: their sum is a bound, because the extremes need not have been at one moment
  kFirst,    // the earliest time
  kLast,     // the latest time
  kSame,     // equal wherever the key is equal
  kSampled,  // that of the row with the longest sample
  kLocal,    // an identity inside one process: rows of different processes stay apart
};
inline constexpr std::string_view kAcrossNames[] = {"",      "sum",   "least", "most", "mean",    "derived", "gauge",
                                                    "bound", "first", "last",  "same", "sampled", "local"};

namespace internal {
// Derives it from the first word of a number's name; Column::combines() overrides it.
constexpr Combine CombineOf(std::string_view name, Unit unit) {
  if (unit == Unit::kNone) return Combine::kNone;
  if (name.starts_with("COUNT_") || name.starts_with("SUM_")) return Combine::kSum;
  if (name.starts_with("MIN_") || name.starts_with("LOW_")) return Combine::kLeast;
  if (name.starts_with("MAX_") || name.starts_with("HIGH_")) return Combine::kMost;
  return name.starts_with("AVG_") ? Combine::kMean : Combine::kNone;
}
// Derives it from `how` and the words of the name; Column::across() overrides it.
constexpr Across AcrossOf(std::string_view name, Unit unit, Combine how) {
  switch (how) {
    case Combine::kSum:
      return Across::kSum;
    case Combine::kLeast:
      return name.starts_with("LOW_") ? Across::kBound : Across::kLeast;
    case Combine::kMost:
      return name.starts_with("HIGH_") ? Across::kBound : Across::kMost;
    case Combine::kMean:
      return Across::kMean;
    case Combine::kDerived:
      return Across::kDerived;
    case Combine::kNone:
      break;
  }
  if (name.starts_with("CURRENT_") && unit != Unit::kNone) return Across::kGauge;
  if (name == "THREAD_ID" || name == "OBJECT_INSTANCE_BEGIN") return Across::kLocal;
  if (!name.ends_with("_SEEN")) return Across::kNone;
  return name.starts_with("FIRST_") ? Across::kFirst : name.starts_with("LAST_") ? Across::kLast : Across::kNone;
}
}  // namespace internal

// Identifies a row struct, so that columns, scan and update of a table can be checked to use the same one. It is a
// hash of the struct's name: g++ does not compare addresses at compile time under -fsanitize=undefined.
using RowTag = uint64_t;
template <typename Row>
constexpr RowTag TagOf() {
  return Hash().Add(__PRETTY_FUNCTION__).value();
}

// Threads: immutable.
struct Column {
  FixedText<48> name;
  FixedText<200> doc;
  Unit unit = Unit::kNone;
  SqlType type{};
  RowTag row = 0;
  void (*append)(const void* rows, size_t count, ColumnBuilder& out) = nullptr;  // rows: in one contiguous array
  void (*append_sql)(const void* row, SqlText& out) = nullptr;                   // the same as a literal
  // Sets the member from text; nullptr text = NULL. Returns false for an illegal value.
  bool (*assign)(void* row, const std::string_view* text) = nullptr;
  bool is_assignable = false;
  bool is_writable = false;
  Combine combine = Combine::kNone;
  Across merge = Across::kNone;

  constexpr Column combines(Combine how) const {
    Column copy = *this;
    copy.combine = how;
    copy.merge = internal::AcrossOf(name.view(), unit, how);
    return copy;
  }
  constexpr Column across(Across how) const {
    Column copy = *this;
    copy.merge = how;
    return copy;
  }
  constexpr Column writable() const {
    if (!is_assignable) throw "a column of this type cannot be written to";
    Column copy = *this;
    copy.is_writable = true;
    return copy;
  }
};

namespace internal {

template <typename Path>
struct MemberOf;
template <typename Row, typename T>
struct MemberOf<T Row::*> {
  using type = Row;
};

// Does what std::invoke of a constant does. It is our own function, so that the compiler knows and inlines the
// callee, however small it wants loops to be.
template <auto kOne, typename T>
PFS_ALWAYS_INLINE constexpr decltype(auto) Step(const T& value) {
  if constexpr (std::is_member_object_pointer_v<decltype(kOne)>) {
    return (value.*kOne);
  } else if constexpr (std::is_member_function_pointer_v<decltype(kOne)>) {
    const typename MemberOf<decltype(kOne)>::type& base = value;
    return (base.*kOne)();
  } else {
    return kOne(value);
  }
}
template <typename T>
constexpr decltype(auto) Follow(const T& value) {
  return value;
}
template <auto First, auto... Rest, typename T>
requires(std::is_member_pointer_v<decltype(First)> ||
         std::is_function_v<std::remove_pointer_t<decltype(First)>>) constexpr auto Follow(const T& value) {
  return Follow<Rest...>(Step<First>(value));
}

template <typename Row, auto... Path>
using TypeAt = std::remove_cvref_t<decltype(Follow<Path...>(std::declval<const Row&>()))>;

template <typename Row, auto... Path>
void Append(const void* rows, size_t count, ColumnBuilder& out) {
  using Traits = SqlTraits<TypeAt<Row, Path...>>;
  const Row* const begin = static_cast<const Row*>(rows);
  ColumnBuilder::Batch batch = out.Begin(count, Traits::kType.kind, Traits::kType.nullable);
  for (const Row* row = begin; row != begin + count; ++row) Traits::Append(Follow<Path...>(*row), batch);
  out.End(batch);
}
template <typename Row, auto... Path>
void AppendSql(const void* row, SqlText& out) {
  SqlTraits<TypeAt<Row, Path...>>::Append(Follow<Path...>(*static_cast<const Row*>(row)), out);
}

template <typename Row, auto Member>
bool Assign(void* row, const std::string_view* text) {
  auto* member = &(static_cast<Row*>(row)->*Member);
  using T = std::remove_pointer_t<decltype(member)>;
  if (text != nullptr) return SqlTraits<T>::Assign(member, *text);
  if constexpr (kIsOptional<T>) {
    member->reset();
    return true;
  } else {
    return false;
  }
}

}  // namespace internal

template <auto First, auto... Rest>
constexpr Column col(FixedText<48> name, Unit unit, FixedText<200> doc) {
  using Row = typename internal::MemberOf<decltype(First)>::type;
  using T = internal::TypeAt<Row, First, Rest...>;
  Column column;
  column.name = name;
  column.doc = doc;
  column.unit = unit;
  column.combine = internal::CombineOf(column.name.view(), unit);
  column.merge = internal::AcrossOf(column.name.view(), unit, column.combine);
  column.type = SqlTraits<T>::kType;
  column.row = TagOf<Row>();
  column.append = internal::Append<Row, First, Rest...>;
  column.append_sql = internal::AppendSql<Row, First, Rest...>;
  if constexpr (sizeof...(Rest) == 0 && std::is_member_object_pointer_v<decltype(First)>) {
    if constexpr (Assignable<T>) {
      column.assign = internal::Assign<Row, First>;
      column.is_assignable = true;
    }
  }
  return column;
}

template <size_t N>
using ColumnGroup = std::array<Column, N>;

namespace internal {
constexpr ColumnGroup<1> Group(const Column& column) { return {column}; }
template <size_t N>
constexpr ColumnGroup<N> Group(const ColumnGroup<N>& group) {
  return group;
}
template <size_t N, size_t M>
constexpr ColumnGroup<N + M> Join(const ColumnGroup<N>& a, const ColumnGroup<M>& b) {
  ColumnGroup<N + M> joined{};
  for (size_t i = 0; i < N; ++i) joined[i] = a[i];
  for (size_t i = 0; i < M; ++i) joined[N + i] = b[i];
  return joined;
}
}  // namespace internal

// Are the columns of a table. The array of a large declaration is made at run time, when the table is first read (columns_of): a constant
// one would be full of addresses, of functions, and each start of a program would relocate it, page by page.
// Threads: immutable.
class ColumnList {
 public:
  using Make = std::span<const Column> (*)();
  constexpr ColumnList() = default;
  constexpr ColumnList(Make make) : make_(make) {}
  template <size_t N>
  constexpr ColumnList(const ColumnGroup<N>& group) : group_(group) {}

  // `make_` is never compared with nullptr: g++ 12 with -fsanitize=undefined takes that for no constant expression.
  constexpr std::span<const Column> get() const { return group_.empty() ? make_() : group_; }
  constexpr size_t size() const { return get().size(); }
  constexpr bool empty() const { return get().empty(); }
  constexpr const Column& operator[](size_t i) const { return get()[i]; }
  constexpr auto begin() const { return get().begin(); }
  constexpr auto end() const { return get().end(); }

 private:
  static constexpr std::span<const Column> None() { return {}; }

  Make make_ = None;
  std::span<const Column> group_{};
};

// Columns and groups of columns, in the order of the table.
constexpr ColumnGroup<0> columns() { return {}; }
template <typename First, typename... Rest>
constexpr auto columns(const First& first, const Rest&... rest) {
  return internal::Join(internal::Group(first), columns(rest...));
}

namespace internal {
// Is what a column has without an address.
struct ColumnTexts {
  FixedText<48> name;
  FixedText<200> doc;
};
template <const auto& kGroup>
inline constexpr auto kTextsOf = [] {
  std::array<ColumnTexts, std::size(kGroup)> texts{};
  for (size_t i = 0; i < texts.size(); ++i) texts[i] = {kGroup[i].name, kGroup[i].doc};
  return texts;
}();

// Returns a constant that the compiler computes by an instruction. Otherwise it may load the constant, from where it was relocated.
template <typename T>
T Computed(T constant) {
  asm("" : "+r"(constant));
  return constant;
}

template <const auto& kGroup, size_t kAt>
SqlType TypeOfColumn() {
  constexpr const SqlType& kType = kGroup[kAt].type;
  return {std::string_view(Computed(kType.name.data()), kType.name.size()), kType.kind, kType.width, kType.nullable,
          std::span(Computed(kType.values.data()), kType.values.size())};
}

template <const auto& kGroup, size_t kAt>
void FillColumn(Column& column) {
  constexpr const Column& kColumn = kGroup[kAt];
  column.unit = kColumn.unit;
  column.type = TypeOfColumn<kGroup, kAt>();
  column.row = kColumn.row;
  column.append = Computed(kColumn.append);
  column.append_sql = Computed(kColumn.append_sql);
  column.assign = Computed(kColumn.assign);
  column.is_assignable = kColumn.is_assignable;
  column.is_writable = kColumn.is_writable;
  column.combine = kColumn.combine;
  column.merge = kColumn.merge;
}

template <const auto& kGroup>
std::span<const Column> MadeColumns() {
  constexpr size_t kCount = std::size(kGroup);
  static std::array<Column, kCount> made;
  [[maybe_unused]] static const bool is_made = [] {
    for (size_t i = 0; i < kCount; ++i) {
      made[i].name = kTextsOf<kGroup>[i].name;
      made[i].doc = kTextsOf<kGroup>[i].doc;
    }
    [&]<size_t... kAt>(std::index_sequence<kAt...>) { (FillColumn<kGroup, kAt>(made[kAt]), ...); }
    (std::make_index_sequence<kCount>());
    return true;
  }();
  return made;
}
}  // namespace internal

// Is the list of a group that is a constant.
template <const auto& kGroup>
constexpr std::span<const Column> columns_of() {
  if (std::is_constant_evaluated()) return kGroup;
  return internal::MadeColumns<kGroup>();
}

}  // namespace perfschema
