// table/sql_types.h: the ONE place that maps the C++ type of a row's member to a column: SQL type, kind, append and
// assign. It appends to an Out (a batch of a ColumnBuilder, or a SqlText), and assigns if the column is writable.
//
//   uint64_t bigint unsigned   int64_t bigint      uint32_t int unsigned   int32_t int     double double
//   Text<N>, OwnText<N>  varchar(N)   LongText longtext   Timestamp timestamp(6)  std::optional<T>  T, nullable
//   Timestamp0 timestamp       Date date           MediumInt mediumint unsigned
//   PlainText text             MediumText mediumtext                       LongBlob longblob
//   enum with EnumNames<E>: enum(...)              SetOf<E> with SetNames<E>: set(...)
#pragma once

#include <bit>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/like.h"
#include "snapshot/text.h"
#include "table/column_builder.h"
#include "table/sql_text.h"

namespace perfschema {

struct Timestamp {
  int64_t unix_micros;
};

// The same time, shown in whole seconds; and as a day.
struct Timestamp0 {
  int64_t unix_micros;
};
struct Date {
  int64_t unix_micros;
};
struct MediumInt {
  uint32_t value;
};
struct PlainText : Text<65535> {
  using Text::Text;
};
struct MediumText : Text<0xffffffu> {
  using Text::Text;
};
struct LongBlob : LongText {
  using LongText::LongText;
};

// Specialize with: static constexpr std::string_view kValues[]; the enumerators count from 0 in that order.
template <typename E>
struct EnumNames;
template <typename Tag>
struct SetNames;

// A set of values of SetNames<Tag>.
template <typename Tag>
struct SetOf {
  uint32_t bits = 0;
};

enum class YesNo : uint8_t { kYes = 0, kNo };
constexpr YesNo YesIf(bool yes) { return yes ? YesNo::kYes : YesNo::kNo; }
// Returns what an UPDATE sets a flag to, if it changes it.
constexpr std::optional<bool> ChangedTo(YesNo before, YesNo after) {
  return before == after ? std::optional<bool>() : after == YesNo::kYes;
}
template <>
struct EnumNames<YesNo> {
  static constexpr std::string_view kValues[] = {"YES", "NO"};
};

inline std::string JoinSet(std::span<const std::string_view> values, uint32_t bits) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if ((bits >> i & 1) != 0) text += (text.empty() ? "" : ",") + std::string(values[i]);
  }
  return text;
}

template <typename T>
struct NumberTraits {
  template <typename Out>
  static void Append(T value, Out& out) {
    out.AddWord(static_cast<uint64_t>(value));
  }
  template <typename Out>
  static void AppendNull(Out& out) {
    out.AddNullWord();
  }
};
struct CodeTraits {
  template <typename Out>
  static void AppendNull(Out& out) {
    out.AddNullCode();
  }
};

template <typename T>
struct SqlTraits;
template <>
struct SqlTraits<uint64_t> : NumberTraits<uint64_t> {
  static constexpr SqlType kType{"bigint unsigned", ColumnKind::kUInt64};
};
template <>
struct SqlTraits<int64_t> : NumberTraits<int64_t> {
  static constexpr SqlType kType{"bigint", ColumnKind::kInt64};
};
template <>
struct SqlTraits<uint32_t> : NumberTraits<uint32_t> {
  static constexpr SqlType kType{"int unsigned", ColumnKind::kUInt32};
};
template <>
struct SqlTraits<int32_t> : NumberTraits<int32_t> {
  static constexpr SqlType kType{"int", ColumnKind::kInt32};
};
template <>
struct SqlTraits<double> : NumberTraits<double> {
  static constexpr SqlType kType{"double", ColumnKind::kDouble};
  template <typename Out>
  static void Append(double value, Out& out) {
    out.AddWord(std::bit_cast<uint64_t>(value));
  }
};
// A fraction of a whole, from 0 to 1.
struct Fraction {
  double value;
};
template <>
struct SqlTraits<Fraction> : NumberTraits<double> {
  static constexpr SqlType kType{"double(7,6)", ColumnKind::kDouble};
  template <typename Out>
  static void Append(Fraction value, Out& out) {
    out.AddWord(std::bit_cast<uint64_t>(value.value));
  }
};
template <>
struct SqlTraits<Timestamp> : NumberTraits<int64_t> {
  static constexpr SqlType kType{"timestamp(6)", ColumnKind::kTimestamp};
  template <typename Out>
  static void Append(Timestamp value, Out& out) {
    out.AddWord(static_cast<uint64_t>(value.unix_micros));
  }
};
// Shows a time rounded down to a multiple of `kStep`.
template <typename T, int64_t kStep>
struct CoarseTimeTraits : NumberTraits<int64_t> {
  template <typename Out>
  static void Append(T value, Out& out) {
    const int64_t rest = value.unix_micros % kStep;
    out.AddWord(static_cast<uint64_t>(value.unix_micros - (rest < 0 ? rest + kStep : rest)));
  }
};
template <>
struct SqlTraits<Timestamp0> : CoarseTimeTraits<Timestamp0, 1'000'000> {
  static constexpr SqlType kType{"timestamp", ColumnKind::kTimestamp};
};
template <>
struct SqlTraits<Date> : CoarseTimeTraits<Date, 86'400'000'000> {
  static constexpr SqlType kType{"date", ColumnKind::kTimestamp};
};
template <>
struct SqlTraits<MediumInt> : NumberTraits<uint32_t> {
  static constexpr SqlType kType{"mediumint unsigned", ColumnKind::kUInt32};
  static constexpr uint32_t kMost = 0xffffff;
  template <typename Out>
  static void Append(MediumInt value, Out& out) {
    out.AddWord(value.value);
  }
  static bool Assign(MediumInt* to, std::string_view text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to->value);
    return error == std::errc{} && end == text.data() + text.size() && to->value <= kMost;
  }
};
template <uint32_t N>
struct SqlTraits<Text<N>> : CodeTraits {
  static constexpr SqlType kType{"varchar", ColumnKind::kText, N};
  template <typename Out>
  static void Append(const Text<N>& value, Out& out) {
    out.AddText(value.view());
  }
  // The row does not own the text: the function that keeps the row copies it.
  static bool Assign(Text<N>* to, std::string_view text) {
    if (text.size() > N) return false;
    *to = text;
    return true;
  }
};
template <uint32_t N>
struct SqlTraits<Char<N>> : SqlTraits<Text<N>> {
  static constexpr SqlType kType{"char", ColumnKind::kText, N};
};
template <uint32_t N>
struct SqlTraits<OwnText<N>> : SqlTraits<Text<N>> {
  template <typename Out>
  static void Append(const OwnText<N>& value, Out& out) {
    out.AddOwnText(value.view());
  }
};
template <>
struct SqlTraits<LongText> : CodeTraits {
  static constexpr SqlType kType{"longtext", ColumnKind::kText};
  template <typename Out>
  static void Append(const LongText& value, Out& out) {
    out.AddText(value.view());
  }
};
template <typename T>
struct LargeTextTraits : CodeTraits {
  template <typename Out>
  static void Append(const T& value, Out& out) {
    out.AddText(value.view());
  }
};
template <>
struct SqlTraits<PlainText> : LargeTextTraits<PlainText> {
  static constexpr SqlType kType{"text", ColumnKind::kText};
};
template <>
struct SqlTraits<MediumText> : LargeTextTraits<MediumText> {
  static constexpr SqlType kType{"mediumtext", ColumnKind::kText};
};
template <>
struct SqlTraits<LongBlob> : LargeTextTraits<LongBlob> {
  static constexpr SqlType kType{"longblob", ColumnKind::kText};
};
template <typename E>
requires std::is_enum_v<E>
struct SqlTraits<E> : CodeTraits {
  static constexpr SqlType kType{"enum", ColumnKind::kEnum, 0, false, EnumNames<E>::kValues};
  template <typename Out>
  static void Append(E value, Out& out) {
    out.AddCode(static_cast<uint32_t>(value));
  }
  static bool Assign(E* to, std::string_view text) {
    for (size_t i = 0; i < kType.values.size(); ++i) {
      if (!EqualsIgnoringCase(text, kType.values[i])) continue;
      *to = static_cast<E>(i);
      return true;
    }
    return false;
  }
};
template <typename Tag>
struct SqlTraits<SetOf<Tag>> : CodeTraits {
  static constexpr SqlType kType{"set", ColumnKind::kSet, 0, false, SetNames<Tag>::kValues};
  template <typename Out>
  static void Append(SetOf<Tag> value, Out& out) {
    out.AddMadeText(value.bits, [&] { return JoinSet(kType.values, value.bits); });
  }
  // Parses "a,b" in any order; "" is the empty set.
  static bool Assign(SetOf<Tag>* to, std::string_view text) {
    uint32_t bits = 0;
    while (!text.empty()) {
      const size_t comma = text.find(',');
      const std::string_view word = text.substr(0, comma);
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
      size_t i = 0;
      while (i < kType.values.size() && !EqualsIgnoringCase(word, kType.values[i])) ++i;
      if (i == kType.values.size()) return false;
      bits |= 1u << i;
    }
    to->bits = bits;
    return true;
  }
};
template <typename T>
struct SqlTraits<std::optional<T>> {
  static constexpr SqlType kType{SqlTraits<T>::kType.name, SqlTraits<T>::kType.kind, SqlTraits<T>::kType.width, true,
                                 SqlTraits<T>::kType.values};
  template <typename Out>
  static void Append(const std::optional<T>& value, Out& out) {
    if (value)
      SqlTraits<T>::Append(*value, out);
    else
      SqlTraits<T>::AppendNull(out);
  }
  static bool Assign(std::optional<T>* to, std::string_view text) requires requires(T* value) { SqlTraits<T>::Assign(value, text); }
  {
    T value{};
    if (!SqlTraits<T>::Assign(&value, text)) return false;
    *to = value;
    return true;
  }
};

template <typename T>
concept Assignable = requires(T* value, std::string_view text) {
  SqlTraits<T>::Assign(value, text);
};
template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

}  // namespace perfschema
