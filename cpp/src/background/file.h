// background/file.h: the files of one thread's trace, part after part. docs/reference/trace.md has their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace perfschema {

// Holds the options that all files share. Threads: external lock, as everything in this folder but writer.h.
struct TraceFolder {
  enum class OnLimit { kStop = 0, kRotate, kDrop };
  std::string path;       // absolute
  uint64_t max_size = 0;  // 0 = no limit
  OnLimit on_limit = OnLimit::kStop;
};

// Names the thread whose rows are in a file.
struct TraceNames {
  uint64_t thread_id = 0;
  std::string actor = "-", thread = "-";  // as they appear in the name of the file
};
// Replaces bytes that a file name may not contain by '_'.
std::string NameForFile(std::string_view text);
std::string ActorForFile(std::string_view user, std::string_view host);

class TraceFile {
 public:
  TraceFile() = default;
  ~TraceFile() { Close(); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Writes `lines`, all of them whole lines. Returns how many bytes are in a file now. If these are fewer than all, `*error` says why, or
  // is empty (on_limit = drop). The file always ends with a whole line.
  size_t Append(const TraceFolder& folder, const TraceNames& names, std::string_view lines, std::string* error);
  // Makes the next Append begin a new part.
  void EndPart();
  // Closes the file until the next Append.
  void Close();
  bool is_open() const { return descriptor_ >= 0; }

 private:
  bool OpenPart(const TraceFolder& folder, const TraceNames& names, std::string* error);
  bool Reopen(std::string* error);
  size_t Write(std::string_view lines, std::string* error);

  int descriptor_ = -1;
  std::string path_;    // of the part, empty = none yet
  std::string before_;  // path of the part before, which rotate will remove
  std::string actor_;
  uint64_t bytes_ = 0, header_bytes_ = 0;
  uint32_t part_ = 0;
};

}  // namespace perfschema
