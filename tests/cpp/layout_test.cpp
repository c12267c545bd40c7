// cpp/src/shm/LAYOUT.md is the map for readers in other languages: its numbers must be the compiler's.
#include "shm/layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <string>

// Records begin with a common base (ShmRecord): gcc and clang lay out a struct with a base as if the base were its
// first member.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace perfschema {
namespace {

#define SIZE(s) \
  { #s, sizeof(s) }
const std::map<std::string, size_t> kSizes = {
    SIZE(ShmArray),       SIZE(ShmStat),      SIZE(ShmPrincipal),    SIZE(ShmThread),    SIZE(ShmThreadTexts), SIZE(ShmTable),
    SIZE(ShmIndex),       SIZE(ShmInstance),  SIZE(ShmInstanceList), SIZE(ShmFile),      SIZE(ShmRetired),     SIZE(ShmCell),
    SIZE(ShmNameGranule), SIZE(ShmSource),    SIZE(ShmCallSite),     SIZE(ShmChunk),     SIZE(ShmWaitRecord),  SIZE(ShmWaitDetails),
    SIZE(ShmFact),        SIZE(ShmFactBlock), SIZE(ShmLogUnit),      SIZE(ShmFreeLists), SIZE(ShmHold),
};
#define AT(s, f) \
  { #s "." #f, offsetof(s, f) }
const std::map<std::string, size_t> kOffsets = {
    AT(ShmHeader, magic),
    AT(ShmHeader, layout_major),
    AT(ShmHeader, endian_mark),
    AT(ShmHeader, segment_bytes),
    AT(ShmHeader, pid),
    AT(ShmHeader, pid_namespace),
    AT(ShmHeader, process_start_ticks),
    AT(ShmHeader, boot_id),
    AT(ShmHeader, epoch_unix_micros),
    AT(ShmHeader, library_version),
    AT(ShmHeader, command),
    AT(ShmHeader, parent),
    AT(ShmHeader, timers),
    AT(ShmHeader, record_bytes),
    AT(ShmHeader, long_text_bytes),
    AT(ShmHeader, header_bytes),
    AT(ShmHeader, array_count),
    AT(ShmHeader, file_bytes),
    AT(ShmHeader, arrays),
    AT(ShmArray, offset),
    AT(ShmArray, stride),
    AT(ShmArray, capacity),
    AT(ShmArray, first_extent),
    AT(ShmArray, used),
    AT(ShmArray, reserved),
    AT(ShmArray, free_head),
    AT(ShmArray, mapped),
    AT(ShmArray, extents),
    AT(ShmChunk, begin),
    AT(ShmChunk, ready),
    AT(ShmInstance, flags),
    AT(ShmInstance, class_index),
    AT(ShmInstance, seq),
    AT(ShmInstance, gen),
    AT(ShmInstance, stat),
    AT(ShmInstance, owner),
    AT(ShmInstance, identity),
    AT(ShmInstanceList, cells),
    AT(ShmInstanceList, version),
    AT(ShmInstanceList, home),
    AT(ShmHold, seq),
    AT(ShmHold, gen),
    AT(ShmHold, since),
    AT(ShmHold, stat),
    AT(ShmHold, longest),
    AT(ShmHold, what),
    AT(ShmHold, version),
    AT(ShmStat, count),
    AT(ShmStat, sum_ps),
    AT(ShmStat, inverted_min_ps),
    AT(ShmStat, range_ps),
    AT(ShmCell, seq),
    AT(ShmCell, gen),
    AT(ShmCell, owner),
    AT(ShmCell, next),
    AT(ShmCell, stat),
    AT(ShmCell, amount),
    AT(ShmCell, instance),
    AT(ShmCell, held),
    AT(ShmWaitRecord, state),
    AT(ShmWaitRecord, event_id),
    AT(ShmWaitRecord, start_ticks),
    AT(ShmWaitRecord, end_ticks),
    AT(ShmWaitRecord, object),
    AT(ShmWaitRecord, what),
    AT(ShmWaitRecord, nesting_event_id),
    AT(ShmWaitRecord, end_info),
    AT(ShmWaitDetails, bytes),
    AT(ShmWaitDetails, flags_and_name),
    AT(ShmWaitDetails, version_and_type),
    AT(ShmWaitDetails, index_name),
};

// Reads the rows "| a | b |" and "| a | b | c |" of the page whose last cell is a number.
std::map<std::string, size_t> NumbersOfPage(const std::string& path) {
  std::map<std::string, size_t> numbers;
  std::ifstream page(path);
  EXPECT_TRUE(page.good()) << path;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| Shm", 0) != 0) continue;
    std::string key, cell;
    for (size_t at = 2; at < line.size();) {
      const size_t end = line.find(" |", at);
      cell = line.substr(at, end - at);
      at = end + 3;
      if (at < line.size()) key += (key.empty() ? "" : ".") + cell;
    }
    numbers[key] = std::stoul(cell);
  }
  return numbers;
}

TEST(Layout, PageHasTheCompilersNumbers) {
  std::map<std::string, size_t> expected = kSizes;
  expected.insert(kOffsets.begin(), kOffsets.end());
  EXPECT_EQ(NumbersOfPage(PFS_SOURCE_DIR "/cpp/src/shm/LAYOUT.md"), expected);
}

TEST(Layout, HeaderFitsItsPagesAndZeroIsFree) {
  EXPECT_LE(sizeof(ShmHeader) + 2048, kHeaderCapacity) << "hardly any room is left for fields of later minor versions";
  EXPECT_EQ(sizeof(ShmDeclared::option_is_set), kMostOptions);
  EXPECT_EQ(kFileFree, 0u);
}

}  // namespace
}  // namespace perfschema
