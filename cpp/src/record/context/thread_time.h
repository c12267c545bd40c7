// record/context/thread_time.h: where the time of threads goes: the kernel's part of it, and the sums of threads that have ended.
//
// The kernel counts for how long a thread has computed, and for how long it was runnable but had no processor. pfs reads both when a
// thread ends, and for the threads that are left when the process does: readers read them for threads that live. When a thread ends, its
// time is split (base/time_states.h) and added to its role. Nothing here runs in a probe.
//
// A row that no thread of the system has made has no time: the thread that attaches it has a row of its own, or none.
#pragma once

#include <cstdint>

#include "record/context/threads.h"

namespace perfschema {

// Notes that the process begins: its first thread may have its first event much later.
void NoteProcessBegin();
// Notes the same of a forked child, whose first event may be late, too. Preserves errno.
void NoteForkedProcessBegin();

// Notes in the new segment how long the program has run before pfs was there. REQUIRES: cold lock.
void NoteLoading();
// A forked child has its parent's header, and began with pfs.
void ForgetLoadingInChild();

// Returns the present, in picoseconds since the epoch. REQUIRES: pfs has started.
uint64_t TimeNow();

// Gives a row the begin of its thread, the calling one. `born`: when it was created, 0 = not known. REQUIRES: cold lock.
void BeginTime(ShmThread& shared, uint64_t born);

// Adds the time of the calling thread, whose row it is, to its role. `is_end`: the thread ends; else its waits are about to leave the row,
// and its time begins again. REQUIRES: cold lock, a section in which numbers move up.
void AddTimeToRole(ShmThread& shared, bool is_end);

// Reads the clocks of all threads: the process ends, or becomes another program. Does nothing in a child of vfork(), and where pfs is off.
// Preserves errno.
void ReadTimesAtEnd(bool becomes_another = false);
// Takes it back: the process goes on.
void ForgetTimesAtEnd();

}  // namespace perfschema
