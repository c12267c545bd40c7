// record/declared/facts.h: the store of facts: rows that the program declares, changes and removes
// (shm/layout_program.h). Cold.
//
// While pfs is off, some kinds are kept in private memory, so that tables which are available then have rows.
//
// A fact is a kind, an owner (a thread, or none), numbers and texts, encoded into a chain of blocks. One store makes,
// replaces, finds and drops facts of all kinds, under the cold lock and inside the fact's `seq`. Blocks are freed
// inside it, too, so a reader restarts if its chain belongs to another fact by now. Facts of a thread are dropped
// when it ends. `setting` is one word that is read without the lock and `seq`: the level of a logger, the frequency
// of a meter. A new kind is a line of PFS_FOR_EACH_FACT_KIND.
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
// Quotes a text for messages.
inline std::string Quoted(std::string_view text) { return "'" + std::string(CutText(text, 128)) + "'"; }

// Runs body() under the cold lock, for facts of `kind`. If pfs is off and the kind is not kept, it does nothing and
// returns ok. Returns kState in a signal handler that interrupted pfs. Preserves errno.
Status WithFacts(FactKind kind, const std::function<Status()>& body);

// Returns the owner of the calling thread's facts: the THREAD_ID of the attached instrumentation; while pfs is off,
// the thread's number in the system. Returns 0 (and counts the loss) if the thread is not instrumented. REQUIRES: the
// cold lock is not held.
uint64_t OwnerOfFacts();

// All functions below REQUIRE WithFacts(). An index is that of a ShmFact, 0 = none.
using FactIndex = uint32_t;
using KeyTexts = std::initializer_list<std::string_view>;
FactIndex FindFact(FactKind kind, uint64_t owner, KeyTexts key);
Fact LoadFact(FactIndex index);
Word& SettingOf(FactIndex index);

// Makes the fact, or replaces the one of the same kind, owner and key. Returns 0 if the store is full; the loss is
// counted, and the old fact stays.
FactIndex StoreFact(FactKind kind, uint64_t owner, const Fact& fact);
void DropFact(FactIndex index);
// Drops all facts of a kind, of every thread, that fit.
void DropFactsIf(FactKind kind, const std::function<bool(const Fact&)>& fits);
uint32_t CountFacts(FactKind kind);
Status DeclaredRowsAreFull();

// Returns the fact of a key, whatever its present content; nullptr: there is none of this kind. Any thread, no lock.
const ShmFact* FactOfKey(FactKind kind, uint32_t key);

// Drops the facts of a thread that has ended. REQUIRES: cold lock.
void DropFactsOf(uint64_t owner);
// Drops the facts of threads that a forked child does not have. REQUIRES: cold lock, threads continued.
void ContinueFactsInChild();

// Makes the store. Returns false without memory. REQUIRES: cold lock, pfs starts.
bool StartFacts();
// Rebuilds the lists from the segment. REQUIRES: cold lock.
void ReindexFacts();

// Returns a view of the facts while pfs is off; the view is not ok() while there are none.
SegmentView FactsWhileOff();

}  // namespace perfschema
