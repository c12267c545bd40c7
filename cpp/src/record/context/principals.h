// record/context/principals.h: accounts, users and hosts, and how statistics of threads move up to them.
//
//   level     row of cells         its statistics move to
//   thread    kThreadCells         the account; without one the user and the host
//   account   kAccountCells        the user and the host
//   user      kUserCells           nowhere
//   host      kHostCells           the total (row 0 of kGlobalCells); of waits nowhere
//
// Statistics without a thread (thread_instrumentation is off) are in the row of kGlobalCells of the counting thread's
// slot. A number is stored in one place only, and a reader adds up a row and all rows below it. ShmEpochs says which
// levels a number still counts for. While numbers move, fold_seq of every principal that they may count for is odd.
//
// Waits have no total here: their totals are those of the objects (record/probe/cells.h). The total of another kind
// is the sum over threads, accounts, hosts and the rows of kGlobalCells. Statistics that leave a host, or have none,
// stay in row 0 of kGlobalCells. The rows of kGlobalCells that belong to slots outlive their threads and never move.
// Statistics move up when a thread ends or changes its account, or when an account is forgotten. ShmThread names the
// account, user and host of a thread.
//
// TRUNCATE of a level empties it and the levels below it. It must leave the sums above as they are, and it may not store to a thread's
// row. So each TRUNCATE begins an epoch: since[level] of the emptied levels becomes `now`. The gen of a cell is the epoch in which its
// numbers began. They count for a level if gen >= since[level]. A thread that finds its cell of an old epoch moves the numbers to the
// closest row that they still count for, and starts from zero. Each kind has epochs of its own.
//
//   TRUNCATE by    thread    account            user                     host                     all
//   empties        thread    thread, account    thread, account, user    thread, account, host    all levels
#pragma once

#include <string_view>

#include "record/context/threads.h"

namespace perfschema {

inline constexpr ArrayId kPrincipalsOf[kLevelCount - 1] = {ArrayId::kThreads, ArrayId::kAccounts, ArrayId::kUsers, ArrayId::kHosts};
inline constexpr ArrayId kCellsOf[kLevelCount] = {ArrayId::kThreadCells, ArrayId::kAccountCells, ArrayId::kUserCells, ArrayId::kHostCells,
                                                  ArrayId::kGlobalCells};

// Makes the private hash tables. Called once under the cold lock.
bool StartPrincipals();
// ReindexPrincipals() rebuilds the hash tables from the segment. RepairPrincipals() makes rows readable again if
// their writer died. REQUIRES: cold lock.
void ReindexPrincipals();
void RepairPrincipals();

// All functions below REQUIRE the cold lock.

// Sets the account of the thread to (user, host); both empty is an account, too. The statistics so far move to the
// old account. One connection ends there and one begins here, even if the account is the same. A principal that does
// not fit is counted as lost. REQUIRES: no signal handler of the thread records meanwhile (OwnSection).
void ConnectThread(ShmThread& thread, std::string_view user, std::string_view host);

// Ends the thread: its statistics move up in one step with `hide`, which hides it from readers.
void DisconnectThread(ShmThread& thread, void (*hide)(ShmThread& thread));

// Moves up the numbers that still count from a cell of an old epoch; then the cell is empty and of the present epoch.
// REQUIRES: the caller is the cell's writer, inside a CellWriter of it.
void RollOver(ShmThread& thread, uint32_t column, ShmCell& cell, Kind kind);

// Makes columns of a row up to `end` safe to store to and updates `ready`, the number of such columns. Returns false
// if the segment is full.
bool ReserveColumns(ArrayId cells, uint64_t row, uint32_t end, HalfWord* ready);

// Return a principal's row of cells (Level::kGlobal: the row for statistics that no host keeps), its number of
// columns that are safe to store to, and its cell of a kind. nullptr: the segment is full.
ShmCell* RowOf(Level level, uint32_t index);
HalfWord& ReadyColumns(Level level, uint32_t index);
ShmCell* ColumnOf(Level level, uint32_t index, uint32_t column, Kind kind);

// TRUNCATE of accounts, users or hosts: rows without a connection disappear and their statistics move up; in the
// others TOTAL becomes CURRENT.
void ForgetUnconnected(Level level);

// Initializes a forked child: live threads are connected, all statistics are zero, and principals of the parent's
// other threads are gone.
void ReconnectInChild();

}  // namespace perfschema
