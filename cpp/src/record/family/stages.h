// record/family/stages.h: the stage that a thread is in: one at a time, the end of one is the start of the next (seed wl4813).
//
// Threads: any thread, for itself.
#pragma once

#include <cstdint>

namespace perfschema {

// Ends the stage that runs, and begins this one. Class 0, or a disabled one: begins none. Preserves errno.
void BeginStage(uint32_t class_index, const char* file, uint32_t line);
void EndStage();

// WORK_COMPLETED and WORK_ESTIMATED of the stage that runs, if its instrument has the progress property.
void SetStageProgress(const uint64_t* completed, const uint64_t* estimated);
void AddStageProgress(uint64_t completed);

}  // namespace perfschema
