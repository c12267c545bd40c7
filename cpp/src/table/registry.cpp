#include "table/registry.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/nearest.h"
#include "record/declared/facts.h"
#include "record/engine/cold_lock.h"
#include "record/engine/runtime.h"
#include "table/errors.h"
#include "table/table_def.h"

namespace perfschema {
namespace {

// Appends rows to the builders of the chosen columns, a few rows at a time. These rows stay in the L1 cache while
// each column takes its member of them.
// Threads: external lock. Valid as long as the Snapshot.
class FrameSink final : public RawSink {
 public:
  FrameSink(const TableDef& def, std::span<const size_t> chosen)
      : row_bytes_(def.scan.row_bytes),
        most_(std::clamp<size_t>(kBatchBytes / row_bytes_, 1, kMostRows)),
        batch_((most_ * row_bytes_ + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)) {
    for (const size_t index : chosen) columns_.push_back(&def.columns[index]);
    builders_.resize(chosen.size());
  }
  void OnRow(const void* row) override {
    std::memcpy(reinterpret_cast<char*>(batch_.data()) + waiting_ * row_bytes_, row, row_bytes_);
    if (++waiting_ == most_) Append();
  }
  void Expect(uint64_t rows) override {
    if (rows_ + waiting_ != 0) return;
    rows = std::min<uint64_t>(rows, 1u << 20);
    uint64_t bytes = 0;
    for (const Column* column : columns_) bytes += ColumnBuilder::CapacityOf(rows, column->type.kind, column->type.nullable);
    // Columns that are large by themselves can be freed one by one.
    const bool is_shared = bytes >= kLargeBlock && rows * sizeof(uint64_t) < kLargeBlock;
    const auto region = is_shared ? std::make_shared<LargeRegion>(bytes) : nullptr;
    for (ColumnBuilder& builder : builders_) builder.Expect(rows, region);
  }
  void Finish(TableData* data) {
    Append();
    data->rows = rows_;
    data->columns.clear();
    for (ColumnBuilder& builder : builders_) data->columns.push_back(builder.Finish());
  }

 private:
  static constexpr size_t kBatchBytes = 24 * 1024, kMostRows = 256;
  void Append() {
    if (waiting_ == 0) return;
    for (size_t i = 0; i < columns_.size(); ++i) columns_[i]->Append(batch_.data(), row_bytes_, waiting_, builders_[i]);
    rows_ += waiting_;
    waiting_ = 0;
  }

  std::vector<const Column*> columns_;
  std::vector<ColumnBuilder> builders_;
  const size_t row_bytes_, most_;
  LargeVector<std::max_align_t> batch_;
  size_t waiting_ = 0;
  size_t rows_ = 0;
};

}  // namespace

Status FindTable(std::string_view name, const NamedTable** table) {
  constexpr std::string_view kSchema = "performance_schema.";
  const bool is_qualified = EqualsIgnoringCase(name.substr(0, kSchema.size()), kSchema);
  const std::string_view wanted = is_qualified ? name.substr(kSchema.size()) : name;
  for (const NamedTable& named : AllTables()) {
    if (!EqualsIgnoringCase(named.name, wanted)) continue;
    *table = &named;
    return {};
  }
  const std::string hint = NearestHint(
      wanted, AllTables(), [](const NamedTable& named) { return named.name; }, ": pfs describe lists all");
  return Status(Code::kNotFound, "unknown table '" + std::string(name.substr(0, 128)) + "'" + hint);
}

std::string OperationNames(uint32_t operations) {
  std::string names;
  const auto add = [&](uint32_t bit, const char* name) {
    if ((operations & bit) != 0) names += (names.empty() ? "" : ", ") + std::string(name);
  };
  add(kSelect, "SELECT");
  add(kInsert, "INSERT");
  add(kUpdate, "UPDATE");
  add(kDelete, "DELETE");
  add(kTruncate, "TRUNCATE");
  return names;
}

Status NotAllowed(const NamedTable& table, const char* operation) {
  return Status(Code::kNotAllowed,
                std::string(operation) + " is not allowed on " + std::string(table.name) + ": it allows " + OperationNames(table.def->ops));
}

Snapshot::Quiesce QuiesceFor(const SegmentView& view) {
  const SegmentView own = __atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE) ? OwnSegmentState().view() : SegmentView();
  if (!view.ok() || !own.ok() || &view.header() != &own.header()) return {};
  return [](const std::function<void()>& run) {
    const ColdLock lock;
    if (!lock) return false;
    run();
    return true;
  };
}

Status ReadTable(const NamedTable& table, const SegmentView& view, std::span<const size_t> columns, TableData* data) {
  const TableDef& def = *table.def;
  std::vector<size_t> chosen(columns.begin(), columns.end());
  for (const size_t index : chosen) {
    if (index < def.columns.size()) continue;
    return Status(Code::kInvalidArgument, std::string(table.name) + " has no column number " + std::to_string(index) + ": it has " +
                                              std::to_string(def.columns.size()) + ", counted from 0");
  }
  if (chosen.empty()) {
    for (size_t i = 0; i < def.columns.size(); ++i) chosen.push_back(i);
  }
  const ReadGuard reading(view.file());
  const Snapshot::Quiesce quiesce = QuiesceFor(view);
  const Snapshot snapshot(view, quiesce, view.ok() ? SegmentView() : FactsWhileOff());
  FrameSink sink(def, chosen);
  if (snapshot.ok() || def.available_when_disabled) def.scan.call(snapshot, sink);
  sink.Finish(data);
  data->skipped = snapshot.skipped();
  if (quiesce && data->skipped != 0) CountLoss(Loss::kTornRows, data->skipped);  // this process's own segment
  data->repaired = snapshot.repaired();
  if (view.file() == nullptr) return {};
  view.file()->CountRows(data->skipped, data->repaired);
  return view.file()->Check();
}

TableData TableOf(const NamedTable& table, const std::function<void(RawSink&)>& give) {
  std::vector<size_t> all(table.def->columns.size());
  std::iota(all.begin(), all.end(), size_t{0});
  FrameSink sink(*table.def, all);
  give(sink);
  TableData data;
  sink.Finish(&data);
  return data;
}

Status TruncateTable(const NamedTable& table) {
  return table.def->truncate.is_set ? table.def->truncate.call() : NotAllowed(table, "TRUNCATE");
}

SegmentView OwnSegment() { return EnsureStarted() ? OwnSegmentState().view() : SegmentView(); }

Status AttachSegmentFile(const std::string& path, std::shared_ptr<SegmentFile>* file) {
  std::unique_ptr<SegmentFile> opened;
  Status status = SegmentFile::Open(path, &opened);
  *file = std::move(opened);
  return status;
}

Status CopySegmentHead(const SegmentFile& file, void* to, size_t bytes) {
  {
    const ReadGuard guard(&file);
    std::memcpy(to, &file.view().header(), bytes);
  }
  return file.Check();
}

Status AdoptSegmentFile(const std::string& path) { return AdoptRuntime(path); }

Status ChangeFromOutside(const std::function<Status()>& change) {
  const OutsiderSection section;
  return section.status().ok() ? change() : section.status();
}

}  // namespace perfschema
