// capi/stream.cpp: calls on streams of which each has a body of its own; calls.cpp has the others.
#include <cstdarg>
#include <cstdio>

#include "capi/call.h"

using perfschema::Operation;
using namespace perfschema::capi;

extern "C" {

FILE* pfs_fopen_at(pfs_key_t key, const char* path, const char* mode, PFS_SITE_) {
  const Operation operation = mode != nullptr && mode[0] == 'w' ? Operation::kCreate : Operation::kOpen;
  return Open(key, operation, path, kNoFlags, false, {file, line}, PFS_CALL_ON_NAME_(fopen(path, mode)), DescriptorOf);
}

int pfs_fclose_at(FILE* stream, PFS_SITE_) {
  return Close(DescriptorOf(stream), {file, line}, [=] { return fclose(stream); });
}

int pfs_fprintf_at(FILE* stream, PFS_SITE_, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = pfs_vfprintf_at(stream, format, arguments, file, line);
  va_end(arguments);
  return written;
}

void pfs_rewind_at(FILE* stream, PFS_SITE_) {
  SeldomPlain(DescriptorOf(stream), Operation::kSeek, 0, {file, line}, [=] { return rewind(stream), 0; });
}

}  // extern "C"
