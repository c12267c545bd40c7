// record/declared/facts.h: the store of facts: rows that the program makes, changes and removes (shm/layout_program.h). Cold.
//
// Where pfs is off some kinds live on in private memory, so that tables which are available when pfs is off have rows.
//
// A fact is a kind, an owner (a thread, or none), numbers and texts, encoded into a chain of blocks. One store makes, replaces, finds
// and drops facts of all kinds, under the cold lock and inside the fact's `seq`. Blocks go back inside it too, so a reader that followed
// a chain which belongs to another fact by now starts again. Facts of a thread go when it ends. `setting` is one word that is read
// without any of that: the level of a logger, the frequency of a meter. A new kind is a line of PFS_FOR_EACH_FACT_KIND.
#pragma once

#include <functional>
#include <initializer_list>

#include "base/status.h"
#include "base/text.h"
#include "record/engine/runtime.h"
#include "shm/fact.h"

namespace perfschema {

using OptionalText = std::optional<std::string_view>;
inline FactText CutFact(OptionalText text, size_t bytes) { return text ? FactText(std::string(CutText(*text, bytes))) : FactText(); }
inline FactText CutOrNull(std::string_view text, size_t bytes) { return text.empty() ? FactText() : CutFact(text, bytes); }
// For messages.
inline std::string Quoted(std::string_view text) { return "'" + std::string(CutText(text, 128)) + "'"; }

// Runs body() under the cold lock, for facts of `kind`. Nothing happens, and all is well, where pfs is off and the kind is not kept.
// kState: in a signal handler that interrupted pfs. Preserves errno.
Status WithFacts(FactKind kind, const std::function<Status()>& body);

// To whom facts of the calling thread belong: the THREAD_ID of the attached instrumentation; where pfs is off, the thread's number in the
// system. 0: nobody is there (counted): the thread is not instrumented. Not under the cold lock.
uint64_t OwnerOfFacts();

// All below REQUIRE WithFacts. An index is that of a ShmFact, 0 = none.
using FactIndex = uint32_t;
using KeyTexts = std::initializer_list<std::string_view>;
FactIndex FindFact(FactKind kind, uint64_t owner, KeyTexts key);
Fact LoadFact(FactIndex index);
Word& SettingOf(FactIndex index);

// Makes the fact, or replaces the one of the same kind, owner and key. 0: no room, counted; what was there stays.
FactIndex StoreFact(FactKind kind, uint64_t owner, const Fact& fact);
void DropFact(FactIndex index);
// Drops facts of a kind (of all threads) that fit.
void DropFactsIf(FactKind kind, const std::function<bool(const Fact&)>& fits);
uint32_t CountFacts(FactKind kind);
Status DeclaredRowsAreFull();

// The fact that a key means, whatever it is by now; nullptr: none of this kind. Any thread, no lock.
const ShmFact* FactOfKey(FactKind kind, uint32_t key);

// The thread has ended. REQUIRES: cold lock.
void DropFactsOf(uint64_t owner);
// In a forked child: facts of threads that are not there go. REQUIRES: cold lock, threads continued.
void ContinueFactsInChild();

// False: no memory. REQUIRES: cold lock, pfs starts.
bool StartFacts();
// The lists anew from the segment. REQUIRES: cold lock.
void ReindexFacts();

// Where facts are while pfs is off; not ok(): there are none yet.
SegmentView FactsWhileOff();

}  // namespace perfschema
