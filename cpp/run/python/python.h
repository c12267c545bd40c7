// run/python/python.h: names that only a Python interpreter knows: the line that makes a lock, the GIL.
//
// A Python lock is a semaphore that PyThread_allocate_lock() makes, or an object of its own (run/calls/python_locks.h). The thread has the
// GIL then, in nearly all cases, and its current frame is the one that makes the lock: the name comes from the frame (python_frames.h).
// Without the public functions of CPython, without the GIL or without a frame, a lock has a general name.
#pragma once

#include <cstdint>
#include <string_view>

#include "run/calls/objects.h"
#include "run/loader/sites.h"

namespace perfschema::run {

struct PyObject;

// Whether this program is a Python interpreter whose functions are known. Constant after start.
extern bool g_is_python __attribute__((visibility("hidden")));

// Whether the interpreter's functions may be called in threads that Python code runs in: g_is_python, or a free-threaded interpreter of
// 3.14 or 3.15. Of what is done then, only what says so needs the GIL. Constant after start.
extern bool g_has_python_layer __attribute__((visibility("hidden")));

// The address of the conditions and mutexes of the GIL; 0 = not known. NameOfGil() finds out by itself what is used for the first time.
extern uintptr_t g_gil __attribute__((visibility("hidden")));

// Whether locks of Python are known: g_is_python, or a free-threaded interpreter whose structs are known. Constant after start.
extern bool g_has_python_locks __attribute__((visibility("hidden")));

// Looks for the interpreter, and gives it the folder of the Python layer. Called once, at the start, with the arguments of the program.
void StartPython(int count, char** arguments);

// Says in the error log what is recorded of a free-threaded Python. REQUIRES: StartPython() was called.
void NoteFreeThreadedPython();

// Starts the Python layer in a program that was joined, and finds its GIL. LeavePython() takes the layer out again. Both wait a second for
// the GIL: else it is done when a thread lets it go. REQUIRES: this thread has no lock of the program.
void JoinPython();
void LeavePython();

// Names a thread that was there before, thread/python/NAME. Lock-free.
void NameEarlyThread(uint64_t os_id, const char* name);

// Returns whether this is a file of the Python layer, or its folder: the program does not know of them.
bool IsOfPythonLayer(const char* path);
std::string_view FolderOfPythonLayer();  // empty: there is none

// Notes a semaphore if it is a Python lock. Returns whether it is. `caller`: of sem_init(). Locks of CPython 3.14 are no semaphores. A
// thread that must wait makes a semaphore of value 0 for that wait, and still has the GIL. If it will wait for a lock of threading,
// `awaited` becomes the lock (run/calls/python_locks.h), or what has the name of the line that waits. Else the semaphore is a condition of
// that name.
bool NotePythonLock(const void* semaphore, unsigned value, const void* caller, Object** awaited);

// Returns the object that this thread is about to wait for, if the interpreter makes the semaphore because a lock is taken that is known
// here; else nullptr.
Object* AwaitedLock(const void* semaphore);

// Notes a lock of Python that is no semaphore, or what threads wait in for a condition. REQUIRES: the GIL, in the thread that makes it.
void NoteLockAt(const void* place);

// Returns the name of what a free-threaded interpreter waits for with a semaphore that no lock has, and its kind; nullptr if it does not
// wait. `caller`: of sem_wait(). REQUIRES: g_reads_free_threads.
const Site* NameOfPark(const void* semaphore, const void* caller, Kind* kind);

// Locks that a type makes in its constructor are conditions from here on: a queue.SimpleQueue has a lock in which get() waits for an item.
// Returns false if the type is not laid out as expected: then nothing changes. REQUIRES: the GIL; one type only.
bool NoteQueueType(PyObject* type);

// From here on locks of a type are known: `lock` is a new one of it. Returns false if it is a semaphore, or if the type is not laid out as
// expected: then nothing changes. REQUIRES: the GIL; one type of each kind.
bool NoteLockType(PyObject* lock, bool is_recursive);

// What is done around a call of a function that C has. The first two set `t_script_call`: in each call, or, of a function that is over
// soon, in some of them. The others are for methods of locks (run/calls/python_locks.h).
enum class Around : uint8_t { kLine, kLineOfSome, kMaking, kTaking, kTakingBack, kRelease, kWholeRelease };
// From here on that is done while Python calls a function: `function` has a table entry of that name, at this offset of the object.
// Returns false if there is none, or if too many are noted. REQUIRES: the GIL if `around` is a method of locks. Lock-free.
bool NoteCall(PyObject* function, size_t entry, const char* name, Around around);

// Undoes NoteQueueType(), NoteLockType() and NoteCall(). REQUIRES: the GIL.
void ForgetQueueType();
void ForgetLockTypes();
void ForgetCalls();

// Returns the site PREFIX MODULE:LINE, of the script's call, or nullptr. REQUIRES: there is one.
const Site* SiteOfScript(const char* prefix);

// Returns the name of a mutex or condition of the GIL, or nullptr if the object is another.
const char* NameOfGil(const void* address, Kind kind);

// Returns the line of the thread's innermost frame that belongs to neither a module of waiting, such as threading or queue, nor to a
// package in `skipped`: names with commas in between, or nullptr; constant, since its address is remembered. `file` is nullptr if no line
// is known, or if a frame before belongs to a package or module with a ! behind its name. The first name that matches counts. Without
// `skipped`, and if all frames are in modules of waiting, it is the module of the innermost one, and rather one beyond threading and queue.
SourceLine PythonLineOfThread(const char* skipped);

}  // namespace perfschema::run
