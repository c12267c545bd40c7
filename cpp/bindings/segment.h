// bindings/segment.h: reading tables, for the files that give them to Python.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"  // Python.h comes first
#include "identity.h"
#include "table/reading.h"

namespace perfschema::bindings {

// A segment file of another process, running or dead, mapped for reading.
// Threads: immutable.
class AttachedSegment {
 public:
  explicit AttachedSegment(std::string path) : path_(std::move(path)) {
    RaiseIfBad(AttachSegmentFile(path_, &file_), "AttachError");
    char head[kIdentityBytes];
    RaiseIfBad(CopySegmentHead(*file_, head, sizeof head), "AttachError");
    identity_ = IdentityOf(head);
  }

  SegmentView view() const { return file_->view(); }
  void ForgetPages() const { file_->ForgetPages(); }
  const std::string& path() const { return path_; }
  const Identity& identity() const { return identity_; }

 private:
  std::string path_;
  std::shared_ptr<SegmentFile> file_;
  Identity identity_;
};

using ColumnList = std::optional<std::vector<std::string>>;  // nullopt = all

const char* KindName(ColumnKind kind);
const NamedTable& GetTable(const std::string& name);  // throws UnknownTable
// Returns the positions of the columns. Throws UnknownColumn, and InvalidArgument for a column that is named twice.
std::vector<size_t> GetColumns(const NamedTable& table, const ColumnList& names);
SegmentView ViewOf(const AttachedSegment* segment);  // nullptr: this process
void RaiseIfUnreadable(Status status, const AttachedSegment* segment);
// Reads columns of this process, or of the segment. Releases the GIL meanwhile.
TableData ReadColumns(const NamedTable& table, std::vector<size_t> columns, const AttachedSegment* segment, const ReadTime& time = {});

}  // namespace perfschema::bindings
