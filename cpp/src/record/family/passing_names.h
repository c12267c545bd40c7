// record/family/passing_names.h: names that are no known file's: of a journal that may be there, of a folder, of a module that is searched.
// Programs ask for some of them again and again. The last one of each hash stays in the segment, so that a call that shows it needs no
// cold lock. A call holds the name until its end, and a name that is held is not replaced.
#pragma once

#include <cstdint>
#include <string_view>

#include "record/engine/names.h"

namespace perfschema {

// Looks for a name and holds it. Returns the place to let go of, and the word of the name, as ShmFile::name has it; 0 if the name is not
// there. Threads: any.
uint32_t HoldPassingName(std::string_view name, uint32_t hash, uint64_t* word);
// Adds a name that is not there and holds it, like HoldPassingName(). Returns 0 if a call holds the name in its place, or the segment is
// full. REQUIRES: cold lock.
uint32_t AddPassingName(std::string_view name, uint32_t hash, uint64_t* word);
// Does the same with names of the thread's. REQUIRES: lock-free path (record/engine/free_lists.h), names.MayReplace(name.size()).
uint32_t AddPassingName(std::string_view name, uint32_t hash, uint64_t* word, NameStash& names);
// Adds the name of a file that is no more: a journal comes again. The name becomes the segment's, or is released. REQUIRES: cold lock.
void LeavePassingName(uint64_t word, uint32_t hash);
// Takes a name that the caller alone holds. Returns its word, which is the caller's to release; 0 if others hold it, too. Either way the
// caller holds it no more. Threads: any.
uint64_t TakePassingName(uint32_t place);
// Threads: any, like those below.
void LetPassingNameGo(uint32_t place);
// Notes that calls on this name from `site` are events of a class, until another site's are, or a file has the name. The caller holds it.
void NoteSiteOfPassingName(uint32_t place, const void* site, uint32_t class_index);
void ForgetSiteOfPassingName(uint32_t place);
// Returns that class; 0 if the last call was from another site. The caller holds the name.
uint32_t ClassOfPassingName(uint32_t place, const void* site);
// Returns whether no file has the name, whose word and place the caller has. Needs no lock: where the index of files changes meanwhile, it
// is false.
bool IsStillPassing(uint32_t place, uint64_t word);
// In a forked child: the calls of other threads are the parent's.
void ForgetHoldsOfPassingNamesInChild();

}  // namespace perfschema
