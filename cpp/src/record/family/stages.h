// record/family/stages.h: the stage of a thread: one at a time; the end of a stage is the start of the next one.
//
// Threads: any thread, for itself.
#pragma once

#include <cstdint>

namespace perfschema {

// Ends the running stage and begins this one. Class 0 or a disabled class begins none. Preserves errno.
void BeginStage(uint32_t class_index, const char* file, uint32_t line);
void EndStage();

// Sets WORK_COMPLETED and WORK_ESTIMATED of the running stage, if its instrument has the progress property.
void SetStageProgress(const uint64_t* completed, const uint64_t* estimated);
void AddStageProgress(uint64_t completed);

}  // namespace perfschema
