// run/streams.cpp: replaces the calls on streams (FILE*). An event is a call of the program, not a system call: the stream's buffer lies
// between them. Calls on single characters are not replaced: they cost less than an event.
#include <cstdarg>
#include <cstring>

#include "run/file_calls.h"

using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;

extern "C" {
size_t __fread_chk(void*, size_t, size_t, size_t, FILE*);
size_t __fread_unlocked_chk(void*, size_t, size_t, size_t, FILE*);
char* __fgets_unlocked_chk(char*, size_t, int, FILE*);
ssize_t __getdelim(char**, size_t*, int, FILE*);  // getline() of optimized programs
int __isoc99_vfscanf(FILE*, const char*, va_list);
int __isoc99_fscanf(FILE*, const char*, ...);
int __isoc99_vscanf(const char*, va_list);
int __isoc99_scanf(const char*, ...);
int __isoc23_vfscanf(FILE*, const char*, va_list);
int __isoc23_fscanf(FILE*, const char*, ...);
int __isoc23_vscanf(const char*, va_list);
int __isoc23_scanf(const char*, ...);
char* __fgets_chk(char*, size_t, int, FILE*);
int __vprintf_chk(int, const char*, va_list);
int __vfprintf_chk(FILE*, int, const char*, va_list);
int __printf_chk(int, const char*, ...);
int __fprintf_chk(FILE*, int, const char*, ...);
}

namespace {

int DescriptorOf(FILE* stream) {
  if (stream == nullptr) return -1;
  const int error = errno;
  const int fd = fileno_unlocked(stream);
  errno = error;
  return fd;
}

// Whether programs make a call often: then it has a body of its own (capi/call.h).
enum class How { kOften, kSeldom };

template <How kHow = How::kSeldom, typename Call, typename Bytes>
[[gnu::always_inline]] inline auto OnStream(FILE* stream, Operation operation, size_t requested, const void* caller, Call call,
                                            Bytes bytes) {
  if (IsPlain()) return call();
  const int fd = DescriptorOf(stream);
  const capi::Site site = fd >= 0 ? KnownSite(fd, caller) : SiteAt(caller);
  const auto shown = static_cast<int64_t>(requested);
  if constexpr (kHow == How::kOften) {
    return capi::OnDescriptor(fd, operation, shown, capi::kNoOffset, site, call, bytes);
  } else {
    return capi::SeldomOnDescriptor<true>(fd, operation, shown, capi::kNoOffset, site, call, bytes);
  }
}

template <typename Call>
[[gnu::always_inline]] inline auto Printed(FILE* stream, const void* caller, Call call) {
  return OnStream(stream, Operation::kWrite, 0, caller, call, [](int n) { return int64_t{n}; });
}

template <typename Real>
FILE* Opened(const char* path, const char* mode, const void* caller, Real real) {
  if (IsPlain()) return real(path, mode);
  const Site& site = *SiteOf(caller);
  FILE* const stream = pfs_fopen_at(KeyOfFile(path, perfschema::IsReadable(path), site), path, mode, site.text, kWholePlace);
  if (stream != nullptr) ForgetAdopted(DescriptorOf(stream));
  return stream;
}

// The stream may have another descriptor, or another file on the same one.
template <typename Real>
FILE* Reopened(const char* path, const char* mode, FILE* stream, Real real) {
  const int before = DescriptorOf(stream);
  FILE* const result = real(path, mode, stream);
  if (IsPlain()) return result;
  for (const int fd : {before, DescriptorOf(result)}) {
    if (fd < 0) continue;
    if (perfschema::FileOfDescriptor(fd) != nullptr) perfschema::UnbindFile(fd);
    ForgetAdopted(fd);
  }
  return result;
}

}  // namespace

PFS_REPLACES FILE* fopen(const char* path, const char* mode) { return Opened(path, mode, PFS_CALLER, PFS_REAL(fopen)); }
PFS_REPLACES FILE* fopen64(const char* path, const char* mode) { return Opened(path, mode, PFS_CALLER, PFS_REAL(fopen64)); }
PFS_REPLACES FILE* freopen(const char* path, const char* mode, FILE* stream) { return Reopened(path, mode, stream, PFS_REAL(freopen)); }
PFS_REPLACES FILE* freopen64(const char* path, const char* mode, FILE* stream) { return Reopened(path, mode, stream, PFS_REAL(freopen64)); }

PFS_REPLACES int fclose(FILE* stream) {
  if (IsPlain()) return PFS_REAL(fclose)(stream);
  if (const int fd = DescriptorOf(stream); fd >= 0) ForgetAdopted(fd);
  return pfs_fclose_at(stream, static_cast<const char*>(PFS_CALLER), kIsCode);
}

#define PFS_ITEMS(how, name, parameters, operation, ...)                                          \
  PFS_REPLACES size_t name parameters {                                                           \
    return OnStream<how>(                                                                         \
        stream, operation, size * count, PFS_CALLER, [=] { return PFS_REAL(name)(__VA_ARGS__); }, \
        [=](size_t n) { return static_cast<int64_t>(n * size); });                                \
  }
PFS_ITEMS(How::kOften, fread, (void* buffer, size_t size, size_t count, FILE* stream), Operation::kRead, buffer, size, count, stream)
PFS_ITEMS(How::kOften, fread_unlocked, (void* buffer, size_t size, size_t count, FILE* stream), Operation::kRead, buffer, size, count,
          stream)
PFS_ITEMS(How::kSeldom, __fread_chk, (void* buffer, size_t capacity, size_t size, size_t count, FILE* stream), Operation::kRead, buffer,
          capacity, size, count, stream)
PFS_ITEMS(How::kSeldom, __fread_unlocked_chk, (void* buffer, size_t capacity, size_t size, size_t count, FILE* stream), Operation::kRead,
          buffer, capacity, size, count, stream)
PFS_ITEMS(How::kOften, fwrite, (const void* buffer, size_t size, size_t count, FILE* stream), Operation::kWrite, buffer, size, count,
          stream)
PFS_ITEMS(How::kOften, fwrite_unlocked, (const void* buffer, size_t size, size_t count, FILE* stream), Operation::kWrite, buffer, size,
          count, stream)

#define PFS_GETS(how, name, parameters, ...)                                                                                         \
  PFS_REPLACES char* name parameters {                                                                                               \
    return OnStream<how>(                                                                                                            \
        stream, Operation::kRead, size > 0 ? static_cast<size_t>(size) : 0, PFS_CALLER, [=] { return PFS_REAL(name)(__VA_ARGS__); }, \
        [](const char* text) { return text != nullptr ? static_cast<int64_t>(std::strlen(text)) : 0; });                             \
  }
PFS_GETS(How::kOften, fgets, (char* buffer, int size, FILE* stream), buffer, size, stream)
PFS_GETS(How::kOften, fgets_unlocked, (char* buffer, int size, FILE* stream), buffer, size, stream)
PFS_GETS(How::kSeldom, __fgets_chk, (char* buffer, size_t capacity, int size, FILE* stream), buffer, capacity, size, stream)
PFS_GETS(How::kSeldom, __fgets_unlocked_chk, (char* buffer, size_t capacity, int size, FILE* stream), buffer, capacity, size, stream)

#define PFS_GETLINE(name, parameters, ...)                                                                                           \
  PFS_REPLACES ssize_t name parameters {                                                                                             \
    return OnStream(                                                                                                                 \
        stream, Operation::kRead, 0, PFS_CALLER, [=] { return PFS_REAL(name)(__VA_ARGS__); }, [](ssize_t n) { return int64_t{n}; }); \
  }
PFS_GETLINE(getline, (char** line, size_t* capacity, FILE* stream), line, capacity, stream)
PFS_GETLINE(getdelim, (char** line, size_t* capacity, int end, FILE* stream), line, capacity, end, stream)
PFS_GETLINE(__getdelim, (char** line, size_t* capacity, int end, FILE* stream), line, capacity, end, stream)

// How many bytes a scan takes is not known.
#define PFS_SCANF(name, parameters, stream, ...)                                                                   \
  PFS_REPLACES int name parameters {                                                                               \
    va_list arguments;                                                                                             \
    va_start(arguments, format);                                                                                   \
    const int n = OnStream(                                                                                        \
        stream, Operation::kRead, 0, PFS_CALLER, [&] { return __VA_ARGS__; }, [](int) { return capi::kNoBytes; }); \
    va_end(arguments);                                                                                             \
    return n;                                                                                                      \
  }
PFS_SCANF(__isoc99_fscanf, (FILE * stream, const char* format, ...), stream, PFS_REAL(__isoc99_vfscanf)(stream, format, arguments))
PFS_SCANF(__isoc99_scanf, (const char* format, ...), stdin, PFS_REAL(__isoc99_vscanf)(format, arguments))
PFS_SCANF(__isoc23_fscanf, (FILE * stream, const char* format, ...), stream, PFS_REAL(__isoc23_vfscanf)(stream, format, arguments))
PFS_SCANF(__isoc23_scanf, (const char* format, ...), stdin, PFS_REAL(__isoc23_vscanf)(format, arguments))

#define PFS_VSCANF(name, parameters, stream, ...)                                                                                  \
  PFS_REPLACES int name parameters {                                                                                               \
    return OnStream(                                                                                                               \
        stream, Operation::kRead, 0, PFS_CALLER, [&] { return PFS_REAL(name)(__VA_ARGS__); }, [](int) { return capi::kNoBytes; }); \
  }
PFS_VSCANF(__isoc99_vfscanf, (FILE * stream, const char* format, va_list arguments), stream, stream, format, arguments)
PFS_VSCANF(__isoc99_vscanf, (const char* format, va_list arguments), stdin, format, arguments)
PFS_VSCANF(__isoc23_vfscanf, (FILE * stream, const char* format, va_list arguments), stream, stream, format, arguments)
PFS_VSCANF(__isoc23_vscanf, (const char* format, va_list arguments), stdin, format, arguments)

#define PFS_PUTS(how, name)                                                                        \
  PFS_REPLACES int name(const char* text, FILE* stream) {                                          \
    const size_t size = std::strlen(text);                                                         \
    return OnStream<how>(                                                                          \
        stream, Operation::kWrite, size, PFS_CALLER, [=] { return PFS_REAL(name)(text, stream); }, \
        [=](int rc) { return rc != EOF ? static_cast<int64_t>(size) : capi::kNoBytes; });          \
  }
PFS_PUTS(How::kOften, fputs)
PFS_PUTS(How::kOften, fputs_unlocked)
PFS_REPLACES int puts(const char* text) {
  const size_t size = std::strlen(text) + 1;
  return OnStream(
      stdout, Operation::kWrite, size, PFS_CALLER, [=] { return PFS_REAL(puts)(text); },
      [=](int rc) { return rc != EOF ? static_cast<int64_t>(size) : capi::kNoBytes; });
}

PFS_REPLACES int vprintf(const char* format, va_list arguments) {
  return Printed(stdout, PFS_CALLER, [&] { return PFS_REAL(vprintf)(format, arguments); });
}
PFS_REPLACES int vfprintf(FILE* stream, const char* format, va_list arguments) {
  return Printed(stream, PFS_CALLER, [&] { return PFS_REAL(vfprintf)(stream, format, arguments); });
}
PFS_REPLACES int __vprintf_chk(int flag, const char* format, va_list arguments) {
  return Printed(stdout, PFS_CALLER, [&] { return PFS_REAL(__vprintf_chk)(flag, format, arguments); });
}
PFS_REPLACES int __vfprintf_chk(FILE* stream, int flag, const char* format, va_list arguments) {
  return Printed(stream, PFS_CALLER, [&] { return PFS_REAL(__vfprintf_chk)(stream, flag, format, arguments); });
}

#define PFS_PRINTF(name, parameters, stream, ...)                           \
  PFS_REPLACES int name parameters {                                        \
    va_list arguments;                                                      \
    va_start(arguments, format);                                            \
    const int n = Printed(stream, PFS_CALLER, [&] { return __VA_ARGS__; }); \
    va_end(arguments);                                                      \
    return n;                                                               \
  }
PFS_PRINTF(printf, (const char* format, ...), stdout, PFS_REAL(vprintf)(format, arguments))
PFS_PRINTF(fprintf, (FILE * stream, const char* format, ...), stream, PFS_REAL(vfprintf)(stream, format, arguments))
PFS_PRINTF(__printf_chk, (int flag, const char* format, ...), stdout, PFS_REAL(__vprintf_chk)(flag, format, arguments))
PFS_PRINTF(__fprintf_chk, (FILE * stream, int flag, const char* format, ...), stream,
           PFS_REAL(__vfprintf_chk)(stream, flag, format, arguments))

// A call that moves no bytes. A stream that has made no event is not adopted for it.
#define PFS_ON_STREAM(type, name, parameters, operation, ...)                           \
  PFS_REPLACES type name parameters {                                                   \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); };                      \
    const int fd = DescriptorOf(stream);                                                \
    if (IsPlain() || perfschema::FileOfDescriptor(fd) == nullptr) return call();        \
    return capi::SeldomPlain(fd, operation, capi::kNoOffset, SiteAt(PFS_CALLER), call); \
  }
PFS_ON_STREAM(int, fflush, (FILE * stream), Operation::kFlush, stream)
PFS_ON_STREAM(int, fseek, (FILE * stream, long offset, int whence), Operation::kSeek, stream, offset, whence)
PFS_ON_STREAM(int, fseeko, (FILE * stream, off_t offset, int whence), Operation::kSeek, stream, offset, whence)
PFS_ON_STREAM(int, fseeko64, (FILE * stream, off64_t offset, int whence), Operation::kSeek, stream, offset, whence)
PFS_ON_STREAM(long, ftell, (FILE * stream), Operation::kTell, stream)
PFS_ON_STREAM(off_t, ftello, (FILE * stream), Operation::kTell, stream)
PFS_ON_STREAM(off64_t, ftello64, (FILE * stream), Operation::kTell, stream)
