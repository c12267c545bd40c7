// record/context/principals.h: accounts, users and hosts, and how numbers of threads move up to them.
//
//   level     row of cells         its numbers move to
//   thread    kThreadCells         the account; without one the user and the host
//   account   kAccountCells        the user and the host
//   user      kUserCells           nowhere
//   host      kHostCells           the total (row 0 of kGlobalCells); of waits nowhere
//
// Numbers that no thread has (thread_instrumentation is off) are in the row of kGlobalCells of the slot of who counted them.
// A number stands in one place only, and a reader adds up a row and all rows below it. Which levels it still counts for its epoch says
// (ShmEpochs). While numbers move, fold_seq of every party that they may count for is odd.
//
// Waits have no total here: their totals are those of the objects (record/probe/cells.h). A total of another kind is the sum over threads,
// accounts, hosts and the rows of kGlobalCells. What leaves a host, or has none, stays in row 0 of kGlobalCells. The rows of
// kGlobalCells that belong to slots outlive their threads and never move. Numbers move up when a thread ends or changes its account, or
// when an account is forgotten. ShmThread names the account, user and host of a thread.
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

// Private tables. Under the cold lock, once.
bool StartPrincipals();
// The tables anew from the segment; and rows readable again that a writer left when it died. REQUIRES: cold lock.
void ReindexPrincipals();
void PutPartiesRight();

// All below REQUIRE the cold lock.

// The thread works for (user, host) from now on; both empty = for nobody, which is an account as well. What it has counted so far moves to
// whom it worked for before, and one connection ends there and begins here, also if it is the same account. A party that there is no room
// for is counted as lost. REQUIRES: no signal handler of the thread records meanwhile (OwnSection).
void ConnectThread(ShmThread& thread, std::string_view user, std::string_view host);

// The thread ends: its numbers move up in one step with `hide`, which takes it out of the readers' sight.
void DisconnectThread(ShmThread& thread, void (*hide)(ShmThread& thread));

// A cell of the thread's row is of an old epoch: what still counts moves up, the cell is empty and of the present epoch.
// REQUIRES: called by its writer, inside a CellWriter of it.
void RollOver(ShmThread& thread, uint32_t column, ShmCell& cell, Kind kind);

// Makes columns of a row up to `end` safe to store to; `ready` says how many are. False: no room.
bool ReserveColumns(ArrayId cells, uint64_t row, uint32_t end, HalfWord* ready);

// A member's row of cells (Level::kGlobal: of what no host keeps), how many of its columns may be stored to, and one of them for a kind;
// nullptr: no room.
ShmCell* RowOf(Level level, uint32_t index);
HalfWord& ReadyColumns(Level level, uint32_t index);
ShmCell* ColumnOf(Level level, uint32_t index, uint32_t column, Kind kind);

// TRUNCATE accounts, users, hosts: rows without a connection go (their numbers move up), of the others TOTAL becomes CURRENT.
void ForgetUnconnected(Level level);

// In a forked child: live threads are connected, there are no numbers, and nobody knows of parties of the parent's other threads.
void ConnectAnewInChild();

}  // namespace perfschema
