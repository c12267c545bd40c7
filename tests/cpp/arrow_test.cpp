// Lifetimes of the Arrow C stream: what a consumer has taken lives until it releases it, whoever is gone by then.
// The address sanitizer sees a use after a release, a second release and a leak.
#include "table/arrow.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace perfschema {
namespace {

constexpr size_t kRows = 1000;

ColumnData Words(uint64_t first) {
  ColumnData column;
  for (size_t row = 0; row < kRows; ++row) column.words.push_back(first + row);
  return column;
}

// Returns a table of all shapes: words, narrow integers with NULLs, texts, an ENUM.
std::shared_ptr<ArrowTable> Made() {
  std::vector<ArrowField> fields = {{"ID", ColumnKind::kUInt64, false, {}},
                                    {"LINE", ColumnKind::kUInt32, true, {}},
                                    {"NAME", ColumnKind::kText, true, {}},
                                    {"ENABLED", ColumnKind::kEnum, false, {"YES", "NO"}}};
  TableData data;
  data.rows = kRows;
  data.columns.push_back(Words(uint64_t{1} << 63));
  data.columns.push_back(Words(7));
  ColumnData texts;
  texts.texts.Add("a");
  texts.texts.Add("b\xff");  // no UTF-8
  texts.texts.Add("b\\xff");
  ColumnData codes;
  for (size_t row = 0; row < kRows; ++row) {
    data.columns[1].nulls.push_back(row % 3 == 0);
    texts.codes.push_back(row % 3);
    texts.nulls.push_back(row % 5 == 0);
    codes.codes.push_back(row % 2);
  }
  data.columns.push_back(std::move(texts));
  data.columns.push_back(std::move(codes));
  return ArrowTable::Of(std::move(fields), std::move(data));
}

template <typename Struct>
void Release(Struct* taken) {
  ASSERT_NE(taken->release, nullptr);
  taken->release(taken);
  EXPECT_EQ(taken->release, nullptr);
}

std::string Text(const ArrowArray& column, size_t row) {
  const auto code = static_cast<const uint32_t*>(column.buffers[1])[row];
  const auto* const begins = static_cast<const int64_t*>(column.dictionary->buffers[1]);
  return {static_cast<const char*>(column.dictionary->buffers[2]) + begins[code], static_cast<size_t>(begins[code + 1] - begins[code])};
}

bool IsValid(const ArrowArray& column, size_t row) {
  return column.buffers[0] == nullptr || (static_cast<const uint8_t*>(column.buffers[0])[row / 8] >> (row % 8) & 1) != 0;
}

void CheckId(const ArrowArray& ids) {
  ASSERT_EQ(ids.length, static_cast<int64_t>(kRows));
  for (size_t row = 0; row < kRows; ++row) ASSERT_EQ(static_cast<const uint64_t*>(ids.buffers[1])[row], (uint64_t{1} << 63) + row);
}

void CheckRows(const ArrowArray& array) {
  ASSERT_EQ(array.n_children, 4);
  CheckId(*array.children[0]);
  EXPECT_EQ(array.children[2]->dictionary->length, 2);  // the two texts of the second and third code are equal now
  for (size_t row = 0; row < kRows; ++row) {
    ASSERT_EQ(IsValid(*array.children[1], row), row % 3 != 0);
    ASSERT_EQ(static_cast<const uint32_t*>(array.children[1]->buffers[1])[row], 7 + row);
    ASSERT_EQ(IsValid(*array.children[2], row), row % 5 != 0);
    ASSERT_EQ(Text(*array.children[2], row), row % 3 == 0 ? "a" : "b\\xff");
    ASSERT_EQ(Text(*array.children[3], row), row % 2 == 0 ? "YES" : "NO");
  }
}

TEST(Arrow, a_stream_outlives_its_table) {
  auto table = Made();
  const std::weak_ptr<ArrowTable> watched = table;
  ArrowArrayStream stream;
  table->ExportStream(&stream);
  table.reset();
  ArrowSchema schema;
  ASSERT_EQ(stream.get_schema(&stream, &schema), 0);
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  Release(&stream);
  EXPECT_FALSE(watched.expired());
  CheckRows(array);
  Release(&array);
  EXPECT_TRUE(watched.expired());  // nothing else holds the rows
  EXPECT_STREQ(schema.children[3]->name, "ENABLED");
  EXPECT_STREQ(schema.children[2]->dictionary->format, "U");
  Release(&schema);
}

TEST(Arrow, a_stream_that_is_released_early) {
  auto table = Made();
  ArrowArrayStream unread, begun;
  table->ExportStream(&unread);
  Release(&unread);
  table->ExportStream(&begun);
  ArrowSchema schema;
  ASSERT_EQ(begun.get_schema(&begun, &schema), 0);
  Release(&begun);
  Release(&schema);
  EXPECT_EQ(table.use_count(), 1);
}

TEST(Arrow, a_second_release_does_nothing) {
  auto table = Made();
  ArrowArrayStream stream;
  table->ExportStream(&stream);
  ArrowSchema schema;
  ASSERT_EQ(stream.get_schema(&stream, &schema), 0);
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  auto* const release_stream = stream.release;
  auto* const release_schema = schema.release;
  auto* const release_array = array.release;
  Release(&stream);
  Release(&schema);
  Release(&array);
  release_stream(&stream);
  release_schema(&schema);
  release_array(&array);
  EXPECT_EQ(table.use_count(), 1);
}

TEST(Arrow, a_stream_ends_and_says_so_again) {
  auto table = Made();
  ArrowArrayStream stream;
  table->ExportStream(&stream);
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  for (int i = 0; i < 2; ++i) {
    ArrowArray end;
    ASSERT_EQ(stream.get_next(&stream, &end), 0);
    EXPECT_EQ(end.release, nullptr);
  }
  EXPECT_EQ(stream.get_last_error(&stream), nullptr);
  Release(&array);
  Release(&stream);
}

// A consumer may move a child out and release the rest. The child says that it moved by a release of nullptr.
TEST(Arrow, a_column_outlives_its_siblings) {
  auto table = Made();
  ArrowArrayStream stream;
  table->ExportStream(&stream);
  table.reset();
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  Release(&stream);
  ArrowArray ids = *array.children[0], names = *array.children[2];
  array.children[0]->release = nullptr;
  array.children[2]->release = nullptr;
  Release(&array);
  CheckId(ids);
  Release(&ids);
  EXPECT_EQ(Text(names, 1), "b\\xff");
  Release(&names);
}

TEST(Arrow, each_stream_has_all_rows_and_threads_may_release_them) {
  auto table = Made();
  const std::weak_ptr<ArrowTable> watched = table;
  std::vector<std::thread> threads;
  std::atomic<int> ready = 0;
  constexpr int kThreads = 4;
  for (int i = 0; i < kThreads; ++i) {
    ArrowArrayStream stream;
    table->ExportStream(&stream);
    threads.emplace_back([stream, i, &ready]() mutable {  // it is released by another thread than the one that made it
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      if (i == 0) {
        Release(&stream);
        return;
      }
      ArrowArray array;
      ASSERT_EQ(stream.get_next(&stream, &array), 0);
      if (i == 1) Release(&stream);
      CheckRows(array);
      Release(&array);
      if (i != 1) Release(&stream);
    });
  }
  table.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(watched.expired());
}

TEST(Arrow, a_table_without_rows) {
  auto table = ArrowTable::Of({{"NAME", ColumnKind::kText, true, {}}}, [] {
    TableData data;
    data.columns.emplace_back();
    return data;
  }());
  ArrowArrayStream stream;
  table->ExportStream(&stream);
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  EXPECT_EQ(array.length, 0);
  ASSERT_EQ(array.n_children, 1);
  EXPECT_EQ(array.children[0]->length, 0);
  EXPECT_NE(array.children[0]->buffers[1], nullptr);
  EXPECT_EQ(array.children[0]->dictionary->length, 0);
  Release(&array);
  Release(&stream);
}

}  // namespace
}  // namespace perfschema
