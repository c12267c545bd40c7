#include "capi/guarded.h"
#include "perfschema/pfs.h"
#include "record/engine/classes.h"
#include "record/family/stages.h"

extern "C" {

int pfs_register_stage(const char* component, pfs_stage_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(perfschema::Family::kStage, component, info, count);
}

void pfs_stage_begin_at(pfs_key_t key, PFS_SITE_) {
  perfschema::BeginStage(perfschema::ClassOfKey(perfschema::Family::kStage, key), file, line);
}

void pfs_stage_end(void) { perfschema::EndStage(); }

void pfs_stage_set_completed(uint64_t completed) { perfschema::SetStageProgress(&completed, nullptr); }
void pfs_stage_add_completed(uint64_t more) { perfschema::AddStageProgress(more); }
void pfs_stage_set_estimated(uint64_t estimated) { perfschema::SetStageProgress(nullptr, &estimated); }

}  // extern "C"
