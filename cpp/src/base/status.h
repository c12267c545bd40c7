// base/status.h: the result of cold calls. Probes never make one.
#pragma once

#include <string>
#include <utility>

namespace perfschema {

// Each code is one Python exception and one PFS_E_* of the C API.
enum class Code { kOk = 0, kInvalidArgument, kNotFound, kNotAllowed, kExists, kFull, kState, kIo, kCorrupt };

// Threads: immutable.
class Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

}  // namespace perfschema
