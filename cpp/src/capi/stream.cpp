// capi/stream.cpp: files by FILE*. A stream belongs to the file of its descriptor.
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "capi/call.h"

using perfschema::Operation;
using namespace perfschema::capi;

namespace {

// Returns the descriptor, or -1 for NULL and for streams without one, which then make the plain call. Preserves errno.
int DescriptorOf(FILE* stream) {
  if (stream == nullptr) return -1;
  const int error = errno;
  const int fd = fileno(stream);
  errno = error;
  return fd;
}

size_t Positive(int n) { return n > 0 ? static_cast<size_t>(n) : 0; }

template <typename Call>
auto Seek(FILE* stream, off_t offset, int whence, Site site, Call call) {
  return SeldomPlain(DescriptorOf(stream), Operation::kSeek, whence == SEEK_SET ? offset : kNoOffset, site, call);
}

template <typename Call>
auto Tell(FILE* stream, Site site, Call call) {
  return SeldomPlain(DescriptorOf(stream), Operation::kTell, kNoOffset, site, call);
}

// Makes a call that transfers whole items.
template <typename Call>
size_t Items(FILE* stream, Operation operation, size_t size, size_t count, Site site, Call call) {
  return OnDescriptor(DescriptorOf(stream), operation, static_cast<int64_t>(size * count), kNoOffset, site, call,
                      [=](size_t n) { return static_cast<int64_t>(n * size); });
}

// Makes a call on one character.
template <typename Call>
int OneByte(FILE* stream, Operation operation, Site site, Call call) {
  return OnDescriptor(DescriptorOf(stream), operation, 1, kNoOffset, site, call, [](int c) { return int64_t{c != EOF}; });
}

}  // namespace

extern "C" {

FILE* pfs_fopen_at(pfs_key_t key, const char* path, const char* mode, PFS_SITE_) {
  const Operation operation = mode != nullptr && mode[0] == 'w' ? Operation::kCreate : Operation::kOpen;
  return Open(key, operation, path, kNoFlags, false, {file, line}, PFS_CALL_ON_NAME_(fopen(path, mode)), DescriptorOf);
}

int pfs_fclose_at(FILE* stream, PFS_SITE_) {
  return Close(DescriptorOf(stream), {file, line}, [=] { return fclose(stream); });
}

size_t pfs_fread_at(void* buffer, size_t size, size_t count, FILE* stream, PFS_SITE_) {
  return Items(stream, Operation::kRead, size, count, {file, line}, [=] { return fread(buffer, size, count, stream); });
}

size_t pfs_fwrite_at(const void* buffer, size_t size, size_t count, FILE* stream, PFS_SITE_) {
  return Items(stream, Operation::kWrite, size, count, {file, line}, [=] { return fwrite(buffer, size, count, stream); });
}

char* pfs_fgets_at(char* buffer, int size, FILE* stream, PFS_SITE_) {
  return OnDescriptor(
      DescriptorOf(stream), Operation::kRead, static_cast<int64_t>(Positive(size)), kNoOffset, {file, line},
      [=] { return fgets(buffer, size, stream); },
      [](const char* text) { return text != nullptr ? static_cast<int64_t>(std::strlen(text)) : 0; });
}

int pfs_fgetc_at(FILE* stream, PFS_SITE_) {
  return OneByte(stream, Operation::kRead, {file, line}, [=] { return fgetc(stream); });
}

int pfs_fputs_at(const char* text, FILE* stream, PFS_SITE_) {
  const auto length = static_cast<int64_t>(std::strlen(text));
  return OnDescriptor(
      DescriptorOf(stream), Operation::kWrite, length, kNoOffset, {file, line}, [=] { return fputs(text, stream); },
      [=](int rc) { return rc != EOF ? length : kNoBytes; });
}

int pfs_fputc_at(int character, FILE* stream, PFS_SITE_) {
  return OneByte(stream, Operation::kWrite, {file, line}, [=] { return fputc(character, stream); });
}

int pfs_vfprintf_at(FILE* stream, const char* format, va_list arguments, PFS_SITE_) {
  return SeldomTransfer(DescriptorOf(stream), Operation::kWrite, 0, kNoOffset, {file, line},
                        [&] { return vfprintf(stream, format, arguments); });
}

int pfs_fprintf_at(FILE* stream, PFS_SITE_, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = pfs_vfprintf_at(stream, format, arguments, file, line);
  va_end(arguments);
  return written;
}

int pfs_fseek_at(FILE* stream, long offset, int whence, PFS_SITE_) {
  return Seek(stream, offset, whence, {file, line}, [=] { return fseek(stream, offset, whence); });
}

int pfs_fseeko_at(FILE* stream, off_t offset, int whence, PFS_SITE_) {
  return Seek(stream, offset, whence, {file, line}, [=] { return fseeko(stream, offset, whence); });
}

void pfs_rewind_at(FILE* stream, PFS_SITE_) {
  Seek(stream, 0, SEEK_SET, {file, line}, [=] { return rewind(stream), 0; });
}

int pfs_fsetpos_at(FILE* stream, const fpos_t* position, PFS_SITE_) {
  return Seek(stream, 0, SEEK_CUR, {file, line}, [=] { return fsetpos(stream, position); });
}

long pfs_ftell_at(FILE* stream, PFS_SITE_) {
  return Tell(stream, {file, line}, [=] { return ftell(stream); });
}

off_t pfs_ftello_at(FILE* stream, PFS_SITE_) {
  return Tell(stream, {file, line}, [=] { return ftello(stream); });
}

int pfs_fgetpos_at(FILE* stream, fpos_t* position, PFS_SITE_) {
  return Tell(stream, {file, line}, [=] { return fgetpos(stream, position); });
}

int pfs_fflush_at(FILE* stream, PFS_SITE_) {
  return SeldomPlain(DescriptorOf(stream), Operation::kFlush, kNoOffset, {file, line}, [=] { return fflush(stream); });
}

}  // extern "C"
