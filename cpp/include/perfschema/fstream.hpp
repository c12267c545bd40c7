// perfschema/fstream.hpp: std::filebuf, ifstream, ofstream and fstream, recorded. A part of pfs.hpp, which includes it.
//
//     perfschema::ofstream out{"myapp/index", path, std::ios::binary};
//     out << header << rows;
//
// The streams have a buffer of 8 KiB: an event is one read or write of the file, not one <<. SOURCE of all events is the line that opened
// the file. Text is not converted by a locale. Streams neither move nor swap.
//
// Threads: an object is for one thread at a time.
#ifndef PERFSCHEMA_FSTREAM_HPP
#define PERFSCHEMA_FSTREAM_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

#include <algorithm>
#include <istream>
#include <memory>
#include <ostream>
#include <streambuf>

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

// std::filebuf, recorded. The buffer holds what was read ahead, or what is not written yet: never both.
class filebuf : public std::streambuf {
  // Makes a call with the call site of open().
  template <class Call>
  auto at_site(Call call) {
    return call(source_file_, source_line_);
  }

 public:
  filebuf() : filebuf(own_key()) {}
  // `name` is "component/name".
  explicit filebuf(detail::name_view name) : filebuf(detail::key_of(pfs_register_file, name)) {}
  explicit filebuf(pfs_key_t key) : key_(key) {}
  ~filebuf() override { close(); }
  filebuf(const filebuf&) = delete;
  filebuf& operator=(const filebuf&) = delete;

  bool is_open() const noexcept { return fd_ >= 0; }
  filebuf* open(const std::string& path, std::ios_base::openmode mode, PFS_CALLER_) {
    const int flags = flags_of(mode);
    if (is_open() || flags < 0) return nullptr;
    source_file_ = source_file;
    source_line_ = source_line;
#ifdef PFS_DISABLE
    fd_ = pfs_open(key_, path.c_str(), flags | O_CLOEXEC, 0666);
#else
    fd_ = pfs_open_at(key_, source_file, source_line, path.c_str(), flags | O_CLOEXEC, 0666);
#endif
    if (fd_ < 0) return nullptr;
    if (!buffer_) buffer_.reset(new char[kSize]);
    may_read_ = (mode & std::ios_base::in) != 0;
    may_write_ = (mode & (std::ios_base::out | std::ios_base::app)) != 0;
    forget_buffer();
    if ((mode & std::ios_base::ate) != 0 && move_to(0, SEEK_END) < 0) {
      close();
      return nullptr;
    }
    return this;
  }
  filebuf* close() {
    if (!is_open()) return nullptr;
    const bool is_written = write_buffer();
    const int fd = std::exchange(fd_, -1);
    const bool is_closed = at_site([&](PFS_CALLER_) { return PFS_CALL_(close, fd); }) == 0;
    forget_buffer();
    return is_written && is_closed ? this : nullptr;
  }

  static pfs_key_t key_for(detail::name_view name) { return detail::key_of(pfs_register_file, name); }

 protected:
  int_type underflow() override {
    if (gptr() < egptr()) return traits_type::to_int_type(*gptr());
    if (!is_open() || !may_read_ || !write_buffer()) return traits_type::eof();
    const ssize_t bytes = read(buffer_.get(), kSize);
    if (bytes <= 0) {
      forget_buffer();
      return traits_type::eof();
    }
    setp(nullptr, nullptr);
    setg(buffer_.get(), buffer_.get(), buffer_.get() + bytes);
    return traits_type::to_int_type(*gptr());
  }
  std::streamsize showmanyc() override { return is_open() && may_read_ ? 0 : -1; }
  std::streamsize xsgetn(char* to, std::streamsize count) override {
    std::streamsize done = std::min<std::streamsize>(count, egptr() - gptr());
    if (done > 0) {
      traits_type::copy(to, gptr(), static_cast<size_t>(done));
      gbump(static_cast<int>(done));
    }
    if (count - done < static_cast<std::streamsize>(kSize)) return done + std::streambuf::xsgetn(to + done, count - done);
    if (!is_open() || !may_read_ || !write_buffer()) return done;
    forget_buffer();
    while (done < count) {  // a large rest needs no buffer
      const ssize_t bytes = read(to + done, static_cast<size_t>(count - done));
      if (bytes <= 0) break;
      done += bytes;
    }
    return done;
  }
  int_type overflow(int_type c = traits_type::eof()) override {
    if (!is_open() || !may_write_ || !back_to_read_position() || !write_buffer()) return traits_type::eof();
    setp(buffer_.get(), buffer_.get() + kSize);
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    *pptr() = traits_type::to_char_type(c);
    pbump(1);
    return c;
  }
  std::streamsize xsputn(const char* from, std::streamsize count) override {
    if (count < static_cast<std::streamsize>(kSize)) return std::streambuf::xsputn(from, count);
    if (!is_open() || !may_write_ || !back_to_read_position() || !write_buffer()) return 0;
    return write_all(from, static_cast<size_t>(count)) ? count : 0;
  }
  int sync() override { return !is_open() || (write_buffer() && back_to_read_position()) ? 0 : -1; }
  pos_type seekoff(off_type offset, std::ios_base::seekdir direction, std::ios_base::openmode) override {
    if (!is_open() || !write_buffer()) return pos_type(off_type(-1));
    if (offset == 0 && direction == std::ios_base::cur) {
      const off_t at = at_site([&](PFS_CALLER_) { return PFS_CALL_(tell, fd_); });
      return pos_type(at < 0 ? off_type(-1) : off_type(at) - (egptr() - gptr()));
    }
    if (!back_to_read_position()) return pos_type(off_type(-1));
    const int whence = direction == std::ios_base::beg ? SEEK_SET : direction == std::ios_base::cur ? SEEK_CUR : SEEK_END;
    return pos_type(move_to(offset, whence));
  }
  pos_type seekpos(pos_type position, std::ios_base::openmode which) override {
    return seekoff(off_type(position), std::ios_base::beg, which);
  }
  int_type pbackfail(int_type c = traits_type::eof()) override {
    if (gptr() == nullptr || gptr() == eback()) {
      if (!is_open() || !may_read_ || !write_buffer() || !back_to_read_position()) return traits_type::eof();
      if (move_to(-1, SEEK_CUR) < 0 || traits_type::eq_int_type(underflow(), traits_type::eof())) return traits_type::eof();
    } else {
      gbump(-1);
    }
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    if (traits_type::eq(*gptr(), traits_type::to_char_type(c))) return c;
    *gptr() = traits_type::to_char_type(c);
    return c;
  }

 private:
  static constexpr size_t kSize = 8192;

  // Returns open()'s flags for the modes that std::filebuf knows; -1 for any other mode.
  static int flags_of(std::ios_base::openmode mode) noexcept {
    using base = std::ios_base;
    const auto kind = mode & (base::in | base::out | base::trunc | base::app);
    if (kind == base::in) return O_RDONLY;
    if (kind == base::out || kind == (base::out | base::trunc)) return O_WRONLY | O_CREAT | O_TRUNC;
    if (kind == base::app || kind == (base::out | base::app)) return O_WRONLY | O_CREAT | O_APPEND;
    if (kind == (base::in | base::out)) return O_RDWR;
    if (kind == (base::in | base::out | base::trunc)) return O_RDWR | O_CREAT | O_TRUNC;
    if (kind == (base::in | base::app) || kind == (base::in | base::out | base::app)) return O_RDWR | O_CREAT | O_APPEND;
    return -1;
  }

  ssize_t read(char* to, size_t count) {
    ssize_t bytes;
    do bytes = at_site([&](PFS_CALLER_) { return PFS_CALL_(read, fd_, to, count); });
    while (bytes < 0 && errno == EINTR);
    return bytes;
  }
  bool write_all(const char* from, size_t count) {
    while (count != 0) {
      const ssize_t bytes = at_site([&](PFS_CALLER_) { return PFS_CALL_(write, fd_, from, count); });
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return false;
      from += bytes;
      count -= static_cast<size_t>(bytes);
    }
    return true;
  }
  off_t move_to(off_t offset, int whence) {
    return at_site([&](PFS_CALLER_) { return PFS_CALL_(lseek, fd_, offset, whence); });
  }
  bool write_buffer() {
    const bool is_written = pptr() == pbase() || write_all(pbase(), static_cast<size_t>(pptr() - pbase()));
    setp(nullptr, nullptr);
    return is_written;
  }
  // Moves the file back to the first byte that was read ahead.
  bool back_to_read_position() {
    const std::streamsize ahead = egptr() - gptr();
    setg(nullptr, nullptr, nullptr);
    return ahead == 0 || move_to(-ahead, SEEK_CUR) >= 0;
  }
  void forget_buffer() {
    setg(nullptr, nullptr, nullptr);
    setp(nullptr, nullptr);
  }
  static pfs_key_t own_key() {
    static const pfs_key_t key = key_for("stream");
    return key;
  }

  pfs_key_t key_;
  int fd_ = -1;
  bool may_read_ = false;
  bool may_write_ = false;
  std::unique_ptr<char[]> buffer_;
  const char* source_file_ = nullptr;  // call site of open()
  uint32_t source_line_ = 0;
};

namespace detail {

// Exists before the stream that uses it.
struct filebuf_holder {
  filebuf buffer_;
};

// Implements the three streams. `kAlways`: the mode that each open() has.
template <class Stream, std::ios_base::openmode Always, std::ios_base::openmode Default>
class file_stream : private filebuf_holder, public Stream {
 public:
  file_stream() : Stream(&buffer_) {}
  // `name` is "component/name". failbit is set if the file cannot be opened.
  file_stream(name_view name, const std::string& path, std::ios_base::openmode mode = Default, PFS_CALLER_)
      : filebuf_holder{filebuf{name}}, Stream(&buffer_) {
    open(path, mode, source_file, source_line);
  }
  file_stream(pfs_key_t key, const std::string& path, std::ios_base::openmode mode = Default, PFS_CALLER_)
      : filebuf_holder{filebuf{key}}, Stream(&buffer_) {
    open(path, mode, source_file, source_line);
  }
  explicit file_stream(name_view name) : filebuf_holder{filebuf{name}}, Stream(&buffer_) {}
  explicit file_stream(pfs_key_t key) : filebuf_holder{filebuf{key}}, Stream(&buffer_) {}

  void open(const std::string& path, std::ios_base::openmode mode = Default, PFS_CALLER_) {
    if (buffer_.open(path, mode | Always, source_file, source_line) == nullptr) {
      this->setstate(std::ios_base::failbit);
    } else {
      this->clear();
    }
  }
  void close() {
    if (buffer_.close() == nullptr) this->setstate(std::ios_base::failbit);
  }
  bool is_open() const noexcept { return buffer_.is_open(); }
  filebuf* rdbuf() const noexcept { return const_cast<filebuf*>(&buffer_); }

  static pfs_key_t key_for(name_view name) { return filebuf::key_for(name); }
};

}  // namespace detail

using ifstream = detail::file_stream<std::istream, std::ios_base::in, std::ios_base::in>;
using ofstream = detail::file_stream<std::ostream, std::ios_base::out, std::ios_base::out>;
using fstream = detail::file_stream<std::iostream, std::ios_base::openmode{}, std::ios_base::in | std::ios_base::out>;

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_FSTREAM_HPP
