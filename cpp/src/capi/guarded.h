// capi/guarded.h: the boundary of functions that are no probes: pfs reports failures only by a code and pfs_last_error().
#pragma once

#include <pthread.h>

#include <cerrno>
#include <exception>
#include <string_view>

#include "base/families.h"
#include "base/status.h"
#include "perfschema/pfs.h"

namespace perfschema::capi {

// Keeps the message for pfs_last_error() of this thread. Returns `code`.
int Fail(int code, std::string_view message);

// Registers instruments of a family, as pfs_register_mutex() says.
int RegisterFamily(Family family, const char* component, pfs_instrument_info* info, int count);

// Runs `body`, which returns a Status. errno is preserved, no exception leaves, and a thread is not canceled inside.
template <typename Body>
int Guarded(Body body) {
  const int error = errno;
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  int code = PFS_OK;
  try {
    const Status status = body();
    if (!status.ok()) code = Fail(static_cast<int>(status.code()), status.message());
  } catch (const std::exception& exception) {  // out of memory
    code = Fail(PFS_E_FULL, exception.what());
  }
  pthread_setcancelstate(cancel_state, nullptr);
  errno = error;
  return code;
}

}  // namespace perfschema::capi
