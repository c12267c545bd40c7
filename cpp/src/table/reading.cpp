#include "table/reading.h"

#include "snapshot/moment.h"

namespace perfschema {

Status ReadTableAt(const ReadTime& time, const NamedTable& table, const SegmentView& view, std::span<const size_t> columns,
                   TableData* data) {
  const ReadMoment moment(time.now, time.shows_elapsed, time.any_order, time.only_used);
  return ReadTable(table, view, columns, data);
}

Status ReadPresent(const SegmentView& view, uint64_t* picoseconds) {
  *picoseconds = 0;
  if (!view.ok()) return {};
  {
    const ReadGuard reading(view.file());
    *picoseconds = PresentOf(view.header());
  }
  return view.file() == nullptr ? Status() : view.file()->Check();
}

Status ReadBecame(const SegmentView& view, uint64_t* monotonic_nanos) {
  *monotonic_nanos = 0;
  if (!view.ok()) return {};
  {
    const ReadGuard reading(view.file());
    *monotonic_nanos = view.header().became.at.load(kAcquire);  // pairs with ReadTimesAtEnd
  }
  return view.file() == nullptr ? Status() : view.file()->Check();
}

}  // namespace perfschema
