// bindings/gil.h: releases the GIL. No other file may do that; a test of the sources checks it.
//
// A daemon thread that takes the GIL back while the interpreter ends never gets it. Before Python 3.14 the interpreter calls pthread_exit
// for it, which unwinds the thread's stack: destructors would run without the GIL, and the first function that is noexcept, as destructors
// are, would end the process by abort(). So the unwinding is caught where it begins, and the thread sleeps until the process ends, as it
// does in Python 3.14.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <type_traits>

#include "bindings.h"  // Python.h comes first

namespace perfschema::bindings {

// Calls function(), which may end by pthread_exit because the interpreter ends. The stack then stays as it is.
template <typename Function>
decltype(auto) ParkIfUnwound(Function&& function) {
#ifdef __GLIBCXX__
  try {
    return function();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  return function();
#endif
}

// Calls function() without the GIL and returns its result. errno is that of the function. Its exceptions are thrown on with the GIL held.
// REQUIRES: the GIL is held; function() calls nothing of Python.
template <typename Function>
auto WithoutGil(Function&& function) {
  PyThreadState* const state = PyEval_SaveThread();
  const auto take_back = [state] { ParkIfUnwound([state] { PyEval_RestoreThread(state); }); };  // keeps errno
  try {
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      take_back();
    } else {
      auto result = function();
      take_back();
      return result;
    }
  } catch (const std::exception&) {  // not (...): a thread that is canceled ends without the GIL
    take_back();
    throw;
  }
}

}  // namespace perfschema::bindings
