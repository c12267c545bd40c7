// run/python/python_calls.h: what is done around calls of methods of locks. run/calls/python_locks.cpp does it.
#pragma once

#include "run/python/python.h"

namespace perfschema::run {

// A call of a function of Python that leads here first, with its arguments in registers.
using AnyFunction = void* (*)(void*, void*, void*, void*, void*);
struct NotedCall {
  AnyFunction original;
  void* arguments[5];
  const void* caller;
  void* operator()() const { return original(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]); }
};

// Stores the call that this thread makes, which may be none. Returns false if the thread has not the GIL.
bool AskForCall(ScriptCall* call);

// What is done around the functions that make, take and release such locks. All return what the function does. REQUIRES: the GIL.
void* AroundMaking(const NotedCall& call);
void* AroundTaking(const NotedCall& call);
void* AroundTakingBack(const NotedCall& call);  // of all levels of an RLock
void* AroundRelease(const NotedCall& call);
void* AroundWholeRelease(const NotedCall& call);  // of all levels, or by nobody that held it

}  // namespace perfschema::run
