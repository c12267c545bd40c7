#include "table/arrow.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace perfschema {
namespace {

// Returns the size of the well-formed UTF-8 sequence at the start of `text`, or 0. REQUIRES: text is not empty.
size_t SequenceSize(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  const auto is_tail = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  if (first < 0xc2 || first > 0xf4 || !is_tail(1)) return 0;
  if (first < 0xe0) return 2;
  if (!is_tail(2) || (first == 0xe0 && at(1) < 0xa0) || (first == 0xed && at(1) > 0x9f)) return 0;
  if (first < 0xf0) return 3;
  if (!is_tail(3) || (first == 0xf0 && at(1) < 0x90) || (first == 0xf4 && at(1) > 0x8f)) return 0;
  return 4;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = SequenceSize(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string Escaped(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string escaped;
  while (!text.empty()) {
    const size_t size = SequenceSize(text);
    if (size != 0) {
      escaped += text.substr(0, size);
    } else {
      const auto byte = static_cast<uint8_t>(text[0]);
      escaped += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return escaped;
}

// Makes the texts UTF-8. Texts that have become equal get one code, because a dictionary has each text once.
void MakeUtf8(TextList* texts, LargeVector<uint32_t>* codes) {
  bool is_good = true;
  for (size_t i = 0; i < texts->size() && is_good; ++i) is_good = IsUtf8((*texts)[i]);
  if (is_good) return;
  TextList clean;
  std::vector<uint32_t> code_of(texts->size());
  std::unordered_map<std::string, uint32_t> known;
  for (size_t i = 0; i < texts->size(); ++i) {
    const auto [found, is_new] = known.try_emplace(Escaped((*texts)[i]), static_cast<uint32_t>(clean.size()));
    if (is_new) clean.Add(found->first);
    code_of[i] = found->second;
  }
  for (uint32_t& code : *codes) code = code_of[code];
  *texts = std::move(clean);
}

const char* FormatOf(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kUInt64:
      return "L";
    case ColumnKind::kInt64:
      return "l";
    case ColumnKind::kUInt32:
      return "I";
    case ColumnKind::kInt32:
    case ColumnKind::kText:
    case ColumnKind::kSet:
    case ColumnKind::kEnum:
      return "i";
    case ColumnKind::kTimestamp:
      return "tsu:UTC";
    case ColumnKind::kDouble:
      return "g";
  }
  return "n";
}

// Makes a bit per row of a byte per row, which is 1 for NULL, and returns the number of NULLs.
int64_t SetValid(const LargeVector<uint8_t>& nulls, size_t rows, LargeVector<uint8_t>* valid) {
  int64_t null_count = 0;
  valid->resize((rows + 7) / 8);
  for (size_t i = 0; i < rows; i += 8) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, nulls.data() + i, std::min<size_t>(8, rows - i));
    if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap64(bytes);
    null_count += std::popcount(bytes);
    // The product has the lowest bit of each byte in its highest byte: that of the first one is the lowest.
    (*valid)[i / 8] = static_cast<uint8_t>(~((bytes * 0x0102040810204080) >> 56));
  }
  return null_count;
}

constexpr uint64_t kNothing = 0;  // what an empty buffer points to

template <typename Vector>
const void* BufferOf(const Vector& values) {
  return values.empty() ? static_cast<const void*>(&kNothing) : values.data();
}

}  // namespace

// Makes the exported structs. Each owns a block of memory that its release function frees.
// Threads: immutable.
struct ArrowExport {
  using Table = std::shared_ptr<const ArrowTable>;

  struct SchemaPart {
    std::string name;
    std::vector<ArrowSchema> children;
    std::vector<ArrowSchema*> pointers;
    ArrowSchema dictionary{};
  };
  struct ArrayPart {
    Table table;  // owns the buffers
    std::array<const void*, 3> buffers{};
    std::vector<ArrowArray> children;
    std::vector<ArrowArray*> pointers;
    ArrowArray dictionary{};
  };
  struct StreamPart {
    Table table;
    bool is_done = false;
    const char* error = nullptr;
  };

  // A second release is an error of the consumer. It does nothing, because it runs in the program that pfs observes.
  template <typename Part, typename Struct>
  static void Release(Struct* exported) {
    auto* const part = static_cast<Part*>(std::exchange(exported->private_data, nullptr));
    exported->release = nullptr;
    if (part == nullptr) return;
    for (Struct& child : part->children) {
      if (child.release != nullptr) child.release(&child);
    }
    if (part->dictionary.release != nullptr) part->dictionary.release(&part->dictionary);
    delete part;
  }
  // Releases a half-made struct if an exception leaves the function that makes it.
  template <typename Struct>
  struct Guard {
    Struct* made;
    ~Guard() {
      if (made != nullptr) made->release(made);
    }
  };
  template <typename Part, typename Struct>
  static Part* Begin(Struct* out, size_t children) {
    auto part = std::make_unique<Part>();
    part->children.resize(children);
    for (Struct& child : part->children) part->pointers.push_back(&child);
    *out = Struct{};
    out->n_children = static_cast<int64_t>(children);
    out->children = children == 0 ? nullptr : part->pointers.data();
    out->release = Release<Part, Struct>;
    out->private_data = part.get();
    return part.release();
  }

  static SchemaPart* Schema(const char* format, std::string_view name, int64_t flags, size_t children, ArrowSchema* out) {
    auto* const part = Begin<SchemaPart>(out, children);
    Guard<ArrowSchema> guard{out};
    part->name = name;
    out->format = format;
    out->name = part->name.c_str();
    out->flags = flags;
    guard.made = nullptr;
    return part;
  }
  static void TableSchema(const ArrowTable& table, ArrowSchema* out) {
    auto* const part = Schema("+s", "", 0, table.columns_.size(), out);
    Guard<ArrowSchema> guard{out};
    for (size_t i = 0; i < table.columns_.size(); ++i) {
      const ArrowTable::Column& column = table.columns_[i];
      ArrowSchema* const child = &part->children[i];
      auto* const child_part = Schema(column.format, column.field.name, column.field.nullable ? ARROW_FLAG_NULLABLE : 0, 0, child);
      if (!column.is_coded) continue;
      Schema("U", "", 0, 0, &child_part->dictionary);
      child->dictionary = &child_part->dictionary;
    }
    guard.made = nullptr;
  }

  static ArrayPart* Array(const Table& table, size_t rows, size_t buffers, size_t children, ArrowArray* out) {
    auto* const part = Begin<ArrayPart>(out, children);
    part->table = table;
    out->length = static_cast<int64_t>(rows);
    out->n_buffers = static_cast<int64_t>(buffers);
    out->buffers = part->buffers.data();
    return part;
  }
  static void TableArray(const Table& table, ArrowArray* out) {
    auto* const part = Array(table, table->rows_, 1, table->columns_.size(), out);
    Guard<ArrowArray> guard{out};
    for (size_t i = 0; i < table->columns_.size(); ++i) {
      const ArrowTable::Column& column = table->columns_[i];
      ArrowArray* const child = &part->children[i];
      auto* const child_part = Array(table, table->rows_, 2, 0, child);
      child->null_count = column.null_count;
      if (!column.valid.empty()) child_part->buffers[0] = column.valid.data();
      child_part->buffers[1] = column.halves.empty() ? BufferOf(column.words) : BufferOf(column.halves);
      if (!column.is_coded) continue;
      auto* const texts = Array(table, column.texts.size(), 3, 0, &child_part->dictionary);
      texts->buffers[1] = column.begins.data();
      texts->buffers[2] = column.begins.back() == 0 ? static_cast<const void*>(&kNothing) : column.texts[0].data();
      child->dictionary = &child_part->dictionary;
    }
    guard.made = nullptr;
  }

  template <typename Make>
  static int Try(ArrowArrayStream* stream, Make make) {
    auto* const part = static_cast<StreamPart*>(stream->private_data);
    part->error = nullptr;
    try {
      make(*part);
      return 0;
    } catch (const std::bad_alloc&) {
      part->error = "pfs: there is no memory for the columns";
      return ENOMEM;
    }
  }
  static int GetSchema(ArrowArrayStream* stream, ArrowSchema* out) {
    return Try(stream, [&](StreamPart& part) { TableSchema(*part.table, out); });
  }
  static int GetNext(ArrowArrayStream* stream, ArrowArray* out) {
    return Try(stream, [&](StreamPart& part) {
      if (part.is_done) {
        *out = ArrowArray{};  // the end of the stream
        return;
      }
      TableArray(part.table, out);
      part.is_done = true;
    });
  }
  static const char* GetLastError(ArrowArrayStream* stream) { return static_cast<StreamPart*>(stream->private_data)->error; }
  static void ReleaseStream(ArrowArrayStream* stream) {
    delete static_cast<StreamPart*>(std::exchange(stream->private_data, nullptr));
    stream->release = nullptr;
  }
};

ArrowTable::Column ArrowTable::Convert(ArrowField&& field, ColumnData&& data, size_t rows) {
  Column column;
  column.format = FormatOf(field.kind);
  if (!data.nulls.empty()) {
    column.null_count = SetValid(data.nulls, rows, &column.valid);
    if (column.null_count == 0) column.valid.clear();  // readers are faster without
  }
  switch (field.kind) {
    case ColumnKind::kText:
    case ColumnKind::kSet:
    case ColumnKind::kEnum:
      column.is_coded = true;
      column.halves = std::move(data.codes);
      if (field.kind == ColumnKind::kEnum) {
        for (const std::string_view value : field.values) column.texts.Add(value);
      } else {
        column.texts = std::move(data.texts);
        MakeUtf8(&column.texts, &column.halves);
      }
      column.begins.reserve(column.texts.size() + 1);
      column.begins.push_back(0);
      for (size_t i = 0; i < column.texts.size(); ++i) {
        column.begins.push_back(column.begins.back() + static_cast<int64_t>(column.texts[i].size()));
      }
      break;
    case ColumnKind::kUInt32:
    case ColumnKind::kInt32:
      column.halves.resize(rows);
      for (size_t i = 0; i < rows; ++i) column.halves[i] = static_cast<uint32_t>(data.words[i]);
      break;
    default:
      column.words = std::move(data.words);
  }
  column.field = std::move(field);
  return column;
}

std::shared_ptr<ArrowTable> ArrowTable::Of(std::vector<ArrowField> fields, TableData&& data) {
  std::shared_ptr<ArrowTable> table(new ArrowTable);
  table->rows_ = data.rows;
  table->columns_.reserve(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    table->columns_.push_back(Convert(std::move(fields[i]), std::move(data.columns[i]), data.rows));
  }
  return table;
}

std::vector<std::string> ArrowTable::names() const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.field.name);
  return names;
}

std::vector<ColumnKind> ArrowTable::kinds() const {
  std::vector<ColumnKind> kinds;
  for (const Column& column : columns_) kinds.push_back(column.field.kind);
  return kinds;
}

void ArrowTable::ExportSchema(ArrowSchema* out) const { ArrowExport::TableSchema(*this, out); }

void ArrowTable::ExportStream(ArrowArrayStream* out) const {
  auto* const part = new ArrowExport::StreamPart{shared_from_this()};
  *out = {ArrowExport::GetSchema, ArrowExport::GetNext, ArrowExport::GetLastError, ArrowExport::ReleaseStream, part};
}

}  // namespace perfschema
