// snapshot/members.h: the arrays of a level: its members, and the cells in which they count.
#pragma once

#include "snapshot/snapshot.h"

namespace perfschema {

inline const ArrayView<ShmCell>& CellsOf(const Snapshot& snapshot, Level level) {
  switch (level) {
    case Level::kThread:
      return snapshot.array<ArrayId::kThreadCells>();
    case Level::kAccount:
      return snapshot.array<ArrayId::kAccountCells>();
    case Level::kUser:
      return snapshot.array<ArrayId::kUserCells>();
    case Level::kHost:
      return snapshot.array<ArrayId::kHostCells>();
    default:
      return snapshot.array<ArrayId::kGlobalCells>();
  }
}

// REQUIRES: the members of `level` are principals.
inline const ArrayView<ShmPrincipal>& PrincipalsOf(const Snapshot& snapshot, Level level) {
  if (level == Level::kAccount) return snapshot.array<ArrayId::kAccounts>();
  return level == Level::kUser ? snapshot.array<ArrayId::kUsers>() : snapshot.array<ArrayId::kHosts>();
}

// Returns how many cells a member has.
inline uint64_t WidthOf(const Snapshot& snapshot, Level level) {
  const bool by_thread = level == Level::kThread || level == Level::kGlobal;
  const uint64_t members = by_thread ? snapshot.array<ArrayId::kThreads>().capacity() : PrincipalsOf(snapshot, level).capacity();
  return members == 0 ? 0 : CellsOf(snapshot, level).capacity() / members;
}

}  // namespace perfschema
