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

// Is what a column has without an address. Threads: immutable.
struct PlainColumn {
  FixedText<48> name;
  FixedText<200> doc;
  Unit unit = Unit::kNone;
  RowTag row = 0;
  bool is_assignable = false;
  bool is_writable = false;
  Combine combine = Combine::kNone;
  Across merge = Across::kNone;
  bool has_literals = false;
};

// Threads: immutable.
struct Column : PlainColumn {
  SqlType type{};
  // Where in a row the value is, or what it is computed from: those below get its address. So columns of one type share them.
  size_t offset = 0;
  void (*append)(const void* first, size_t row_bytes, size_t count, ColumnBuilder& out) = nullptr;
  void (*append_sql)(const void* at, SqlText& out) = nullptr;  // as a literal
  bool (*assign)(void* at, const std::string_view* text) = nullptr;
  size_t (*locate)() = nullptr;                // returns `offset`, which no constant expression can have
  void (*complete)(Column& column) = nullptr;  // sets `type` and the three that take an address

  // Appends the values of `count` rows of an array.
  void Append(const void* rows, size_t row_bytes, size_t count, ColumnBuilder& out) const {
    append(static_cast<const char*>(rows) + offset, row_bytes, count, out);
  }
  // Appends the value of a row as a literal.
  void AppendSql(const void* of_row, SqlText& out) const { append_sql(static_cast<const char*>(of_row) + offset, out); }
  // Sets the member from text; nullptr text = NULL. Returns false for an illegal value. REQUIRES: is_assignable.
  bool Assign(void* of_row, const std::string_view* text) const { return assign(static_cast<char*>(of_row) + offset, text); }

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
  // Marks a text that can hold values of the program: literals of statements, messages that quote them, input of users.
  // docs/howto/texts.md says which commands leave it out.
  constexpr Column literals() const {
    Column copy = *this;
    copy.has_literals = true;
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

// Returns a constant that the compiler computes by an instruction. Otherwise it may load the constant, from where it was relocated.
template <typename T>
T Computed(T constant) {
  asm("" : "+r"(constant));
  return constant;
}
PFS_ALWAYS_INLINE SqlType ComputedType(const SqlType& constant) {
  return {std::string_view(Computed(constant.name.data()), constant.name.size()), constant.kind, constant.width, constant.nullable,
          std::span(Computed(constant.values.data()), constant.values.size())};
}

template <typename From, auto... Path>
void Append(const void* first, size_t row_bytes, size_t count, ColumnBuilder& out) {
  using Traits = SqlTraits<TypeAt<From, Path...>>;
  ColumnBuilder::Batch batch = out.Begin(count, Traits::kType.kind, Traits::kType.nullable);
  const char* at = static_cast<const char*>(first);
  for (size_t i = 0; i < count; ++i, at += row_bytes) Traits::Append(Follow<Path...>(*reinterpret_cast<const From*>(at)), batch);
  out.End(batch);
}
template <typename From, auto... Path>
void AppendSql(const void* at, SqlText& out) {
  SqlTraits<TypeAt<From, Path...>>::Append(Follow<Path...>(*static_cast<const From*>(at)), out);
}
template <typename T>
bool Assign(void* at, const std::string_view* text) {
  T* const member = static_cast<T*>(at);
  if (text != nullptr) return SqlTraits<T>::Assign(member, *text);
  if constexpr (kIsOptional<T>) {
    member->reset();
    return true;
  } else {
    return false;
  }
}

// A path: an offset, as far as it consists of members, and the steps from there.
template <typename From, auto... Path>
struct Walk {
  static constexpr bool kIsAssignable = sizeof...(Path) == 0 && Assignable<From>;
  static size_t Offset() { return 0; }
  static constexpr void Fill(Column& column) {
    column.is_assignable = kIsAssignable;
    column.append_sql = AppendSql<From, Path...>;  // a trace asks the constant
    column.complete = Complete;
  }
  static void Complete(Column& column) {
    using Type = TypeAt<From, Path...>;
    constexpr const SqlType& kType = SqlTraits<Type>::kType;
    column.type = ComputedType(kType);
    column.append = Computed(Append<From, Path...>);
    column.append_sql = Computed(AppendSql<From, Path...>);
    if constexpr (kIsAssignable) column.assign = Computed(Assign<From>);
  }
};
template <typename From, auto First, auto... Rest>
requires std::is_member_object_pointer_v<decltype(First)>
struct Walk<From, First, Rest...> {
  using Next = Walk<TypeAt<From, First>, Rest...>;
  static size_t Offset() {
    const From* const from = reinterpret_cast<const From*>(alignof(From));
    return reinterpret_cast<uintptr_t>(&(from->*First)) - alignof(From) + Next::Offset();
  }
  static constexpr void Fill(Column& column) { Next::Fill(column); }
};

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
  column.locate = internal::Walk<Row, First, Rest...>::Offset;
  internal::Walk<Row, First, Rest...>::Fill(column);
  return column;
}

template <size_t N>
using ColumnGroup = std::array<Column, N>;

namespace internal {
template <typename Part>
inline constexpr size_t kColumnsIn = 1;
template <size_t N>
inline constexpr size_t kColumnsIn<ColumnGroup<N>> = N;

constexpr void Put(const Column& column, Column*& next) { *next++ = column; }
template <size_t N>
constexpr void Put(const ColumnGroup<N>& group, Column*& next) {
  for (const Column& column : group) *next++ = column;
}
}  // namespace internal

// Are the columns of a table, from columns_of(). The array is made at run time, when the table is first read: a constant one would be full
// of addresses, of functions, and each start of a program would relocate it, page by page.
// Threads: immutable.
class ColumnList {
 public:
  using Make = std::span<const Column> (*)();
  constexpr ColumnList() = default;
  constexpr ColumnList(Make make) : make_(make) {}

  constexpr std::span<const Column> get() const { return make_(); }
  constexpr size_t size() const { return get().size(); }
  constexpr bool empty() const { return get().empty(); }
  constexpr const Column& operator[](size_t i) const { return get()[i]; }
  constexpr auto begin() const { return get().begin(); }
  constexpr auto end() const { return get().end(); }

 private:
  static constexpr std::span<const Column> None() { return {}; }

  Make make_ = None;
};

// Columns and groups of columns, in the order of the table. Each is copied once: the compiler needs time for every character of them.
template <typename... Parts>
constexpr auto columns(const Parts&... parts) {
  ColumnGroup<(size_t{0} + ... + internal::kColumnsIn<Parts>)> all{};
  [[maybe_unused]] Column* next = all.data();
  (internal::Put(parts, next), ...);
  return all;
}

namespace internal {
template <const auto& kGroup>
inline constexpr auto kPlainColumns = [] {
  std::array<PlainColumn, std::size(kGroup)> plain{};
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = kGroup[i];
  return plain;
}();

// Sets all of the columns of which `offset` and `complete` are set.
inline void CompleteColumns(std::span<Column> columns, std::span<const PlainColumn> plain) {
  for (size_t i = 0; i < columns.size(); ++i) {
    static_cast<PlainColumn&>(columns[i]) = plain[i];
    columns[i].complete(columns[i]);
  }
}

template <const auto& kGroup>
std::span<const Column> MadeColumns() {
  constexpr size_t kCount = std::size(kGroup);
  static std::array<Column, kCount> made;
  [[maybe_unused]] static const bool is_made = [] {
    [&]<size_t... kAt>(std::index_sequence<kAt...>) {
      ((made[kAt].offset = kGroup[kAt].locate(), made[kAt].complete = Computed(kGroup[kAt].complete)), ...);
    }
    (std::make_index_sequence<kCount>());
    CompleteColumns(made, kPlainColumns<kGroup>);
    return true;
  }();
  return made;
}
}  // namespace internal

// The list of a group that is a constant.
template <const auto& kGroup>
constexpr std::span<const Column> columns_of() {
  if (std::is_constant_evaluated()) return kGroup;
  return internal::MadeColumns<kGroup>();
}

}  // namespace perfschema
