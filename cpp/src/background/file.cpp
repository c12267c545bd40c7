#include "background/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/clock.h"

namespace perfschema {
namespace {

std::string Failed(const char* what, const std::string& path, int error) {
  return std::string(what) + " '" + path + "': " + std::strerror(error);
}

std::string UtcNow() {
  const auto now = static_cast<std::time_t>(WallSeconds());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

}  // namespace

std::string NameForFile(std::string_view text) {
  constexpr size_t kMost = 64;
  std::string name;
  for (const char c : text.substr(0, kMost)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@' || c == '-';
    name += is_plain ? c : '_';
  }
  return name.empty() ? "-" : name;
}

std::string ActorForFile(std::string_view user, std::string_view host) {
  return NameForFile(host.empty() ? std::string(user) : std::string(user) + "@" + std::string(host));
}

void TraceFile::Close() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

void TraceFile::EndPart() {
  Close();
  before_ = std::move(path_);
  path_.clear();
}

bool TraceFile::OpenPart(const TraceFolder& folder, const TraceNames& names, std::string* error) {
  if (mkdir(folder.path.c_str(), 0700) != 0 && errno != EEXIST) {
    *error = Failed("cannot make the folder", folder.path, errno);
    return false;
  }
  const std::string pid = std::to_string(getpid()), thread_id = std::to_string(names.thread_id);
  do {  // an earlier process had the pid, or this thread's trace was continued under another name
    path_ =
        folder.path + "/trace." + names.actor + "." + names.thread + "." + thread_id + "." + pid + "." + std::to_string(++part_) + ".sql";
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  } while (descriptor_ < 0 && errno == EEXIST && part_ < 1'000'000);
  if (descriptor_ < 0) {
    *error = Failed("cannot make the file", path_, errno);
    path_.clear();
    return false;
  }
  actor_ = names.actor;
  bytes_ = 0;
  const std::string header = "/* pfs trace file for " + names.actor + " on " + UtcNow() + "; format 1; thread " + thread_id + " " +
                             names.thread + "; process " + pid + "; part " + std::to_string(part_) + " */\n";
  header_bytes_ = header.size();
  return Write(header, error) == header.size();
}

bool TraceFile::Reopen(std::string* error) {
  descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ >= 0) return true;
  *error = Failed("cannot open the file", path_, errno);
  return false;
}

size_t TraceFile::Write(std::string_view lines, std::string* error) {
  struct stat about;
  if (fstat(descriptor_, &about) == 0 && about.st_nlink == 0) {
    *error = "the file '" + path_ + "' was removed";
    return 0;
  }
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t written = write(descriptor_, lines.data() + done, lines.size() - done);
    if (written > 0) {
      done += static_cast<size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      *error = Failed("cannot write to the file", path_, written == 0 ? EIO : errno);
      break;
    }
  }
  if (done < lines.size()) {
    const size_t end = lines.substr(0, done).rfind('\n');
    const size_t whole = end == std::string_view::npos ? 0 : end + 1;
    if (whole < done && ftruncate(descriptor_, static_cast<off_t>(bytes_ + whole)) != 0) *error += "; its last line is not whole";
    done = whole;
  }
  bytes_ += done;
  return done;
}

size_t TraceFile::Append(const TraceFolder& folder, const TraceNames& names, std::string_view lines, std::string* error) {
  error->clear();
  if (!path_.empty() && actor_ != names.actor) EndPart();
  size_t done = 0;
  while (done < lines.size()) {
    if (path_.empty() ? !OpenPart(folder, names, error) : descriptor_ < 0 && !Reopen(error)) return done;
    std::string_view part = lines.substr(done);
    if (folder.max_size != 0 && bytes_ + part.size() > folder.max_size) {
      const uint64_t left = folder.max_size > bytes_ ? folder.max_size - bytes_ : 0;
      const size_t end = part.substr(0, left).rfind('\n');
      part = part.substr(0, end == std::string_view::npos ? 0 : end + 1);
      // A line that is longer than a whole file gets its own file.
      if (part.empty() && folder.on_limit == TraceFolder::OnLimit::kRotate && bytes_ == header_bytes_)
        part = lines.substr(done, lines.find('\n', done) + 1 - done);
    }
    if (!part.empty()) {
      const size_t written = Write(part, error);
      done += written;
      if (written < part.size()) return done;
      continue;
    }
    switch (folder.on_limit) {
      case TraceFolder::OnLimit::kDrop:
        return done;
      case TraceFolder::OnLimit::kStop:
        *error = "the file '" + path_ + "' has its maximum size of " + std::to_string(folder.max_size) + " bytes";
        return done;
      case TraceFolder::OnLimit::kRotate:
        if (!before_.empty()) unlink(before_.c_str());
        EndPart();
    }
  }
  return done;
}

}  // namespace perfschema
