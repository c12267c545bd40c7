// run/python/python_free_threaded.h: what the threads of a CPython wait for whose locks are bytes, and their frames if it has no GIL.
//
// Nothing of CPython is called here: a thread that waits holds a lock of the interpreter's table of waiters, or has let go of the
// interpreter. A thread reads its own frames, and the code, names and tables of lines that they keep alive. None of these changes. The
// interpreter says itself where the fields of its structs are (python_offsets.h).
//
// The Python layer runs in a free-threaded 3.14 or 3.15. What in this folder stands on the GIL, and what stands for it there:
//
//   Remembered, FrameTrust, FrameObjects  not used: FreeFrames remember nothing, and take no references
//   NoteCall()                            atomic: an entry is whole before the function leads to it
//   t_script_call                         each thread's own
//   statements' handles                   one thread claims a handle; others leave it alone
//   lists and dicts of requests           what another thread may replace is held by a reference
//   NoteLockType(), NoteQueueType(), Around...()  not used: a lock is known when a thread must wait
//   JoinPython(), ForgetCalls()           not used: such a program cannot be joined with the layer
//
// A lock of a free-threaded interpreter is a byte, most of them in an object: PyMutex. So are the locks of threading from 3.14 on, also
// with the GIL. A thread takes a free one without a call. A thread that must wait makes a semaphore on its stack; the word in front of it
// is the address of the byte. So only waits are seen, and free locks cost nothing.
#pragma once

#include <link.h>

#include "run/python/python.h"
#include "run/python/python_frames.h"

namespace perfschema::run {

// Whether the program is such an interpreter, and one whose structs are known. Constant after start.
extern bool g_reads_free_threads __attribute__((visibility("hidden")));

// Checks the interpreter's description of its structs against objects that it has. Called once, at the start.
void StartParks(const link_map& interpreter);

// Returns whether the Python layer runs in it: from 3.14 on. Of 3.13, whose free-threaded form was a first try, only structs are read.
bool TakesLayer();

// Returns the address of the byte that a thread makes this semaphore to wait for, if it is one. REQUIRES: it makes it now, with the value
// 0, in the interpreter.
const char* LockOf(const void* semaphore);

// Returns whether that is a Lock or RLock of threading. REQUIRES: as LockOf().
bool IsForLockOfThreading(const void* semaphore);

// Learns what the instructions of this interpreter do: `rows` are bytes, kOpcodes times an Instruction (python_bytecode.h). `names` are
// those of a code: where it has them is learned, too. Returns false if that is not possible. Before, objects have no names of variables.
bool NoteInstructions(const PyObject* rows, const PyObject* code, const PyObject* names);

// Walks the frames of this thread by the interpreter's structs. Nothing is remembered of them.
class FreeFrames {
 public:
  FreeFrames();
  // Steps to the next frame, the innermost first. Returns false at the end.
  bool Next(Frame* frame);
  // Returns `copy`. REQUIRES: `frame` is the last one of Next().
  const Code* CodeOf(const Frame& frame, const char* skipped, Code* copy);
  // Returns `copy`. REQUIRES: CodeOf() of the frame.
  const Line* LineOf(const Frame& frame, bool with_lock, Line* copy) const;

 private:
  const char* next_;
  char module_[160];
  size_t module_bytes_ = 0;
};

// Calls `visit` as SearchFrames() does.
template <typename Result, typename Visit>
Result SearchFreeFrames(const Result& start, const char* skipped, Visit visit) {
  Result result = start;
  if (g_reads_free_threads) (void)WalkFrames(FreeFrames(), skipped, visit, &result);
  return result;
}

// Notes the semaphore of a wait, as the interpreter makes it.
void NotePark(const void* semaphore);

// What a thread waits for. Without a site, its name is the line that waits: a lock of threading, an event, a condition.
struct Parked {
  const Site* site;
  Kind kind;
};
// Returns what this thread is about to wait for. REQUIRES: the interpreter waits for the semaphore, and it is no lock of threading.
Parked ParkedAt(const void* semaphore);

}  // namespace perfschema::run
