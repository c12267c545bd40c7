// trace/file.h: the files of one thread's trace, part after part. docs/trace.md has their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace perfschema {

// What all files have in common, from the options. Threads: external lock, as everything in this folder but writer.h.
struct TraceFolder {
  enum class OnLimit { kStop = 0, kRotate, kDrop };
  std::string path;       // absolute
  uint64_t max_size = 0;  // 0 = no limit
  OnLimit on_limit = OnLimit::kStop;
};

// Whose rows are in a file.
struct TraceNames {
  uint64_t thread_id = 0;
  std::string actor = "-", thread = "-";  // as they stand in the name of the file
};
// Bytes that may not stand in a name are '_'.
std::string NameForFile(std::string_view text);
std::string ActorForFile(std::string_view user, std::string_view host);

class TraceFile {
 public:
  TraceFile() = default;
  ~TraceFile() { Close(); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Bytes of `lines`, whole lines all of them, that are in a file now; fewer than all: `*error` says why, or is empty (on_limit = drop). The file ends
  // with a whole line in any case.
  size_t Append(const TraceFolder& folder, const TraceNames& names, std::string_view lines, std::string* error);
  // What comes next goes to a new part.
  void EndPart();
  // Until the next Append.
  void Close();
  bool is_open() const { return descriptor_ >= 0; }

 private:
  bool OpenPart(const TraceFolder& folder, const TraceNames& names, std::string* error);
  bool Reopen(std::string* error);
  size_t Write(std::string_view lines, std::string* error);

  int descriptor_ = -1;
  std::string path_;    // of the part, empty = none yet
  std::string before_;  // of the part before it, which rotate will remove
  std::string actor_;
  uint64_t bytes_ = 0, header_bytes_ = 0;
  uint32_t part_ = 0;
};

}  // namespace perfschema
