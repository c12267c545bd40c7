#include "record/engine/cold_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/placement.h"
#include "record/context/principals.h"
#include "record/declared/facts.h"
#include "record/engine/adopted.h"
#include "record/engine/barrier.h"
#include "record/engine/classes.h"
#include "record/engine/free_lists.h"
#include "record/engine/runtime.h"
#include "record/family/digests.h"
#include "shm/unsampled.h"

namespace perfschema {
namespace {

// Guarded by the mutex.
uint32_t section_seen = 0;    // in outsiders: the private indexes match the segment as it was after this section
uint32_t stuck_word = 0;      // word of an outsider that did not release the lock
uint64_t check_again_at = 0;  // nanoseconds: the next check whether it has died

// State of an outsider process.
int outsider_descriptor = -1;
bool is_in_section = false;

constexpr long kNapNanos = 500'000;
constexpr int kNapsForOutsider = 200, kNapsForInsider = 10'000;

HalfWord& Holder() { return g_runtime.header->cold_holder; }

void Nap() {
  const timespec nap{0, kNapNanos};
  nanosleep(&nap, nullptr);
}

uint64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

struct flock FirstByte() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return lock;
}

// Returns true if no outsider holds the file lock. Also returns false if that cannot be known.
bool OutsiderIsDead() {
  const int fd = open(g_runtime.segment.path(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  struct flock lock = FirstByte();
  const bool is_dead = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
  close(fd);
  return is_dead;
}

template <typename T>
void EndWritingIn(ArrayId id, HalfWord T::*seq) {
  const uint64_t used = g_runtime.segment.array(id).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) EndWriting(g_runtime.segment.element<T>(id, i)->*seq);
}

// Undoes a move of numbers (ShmMove), or finishes it, that an outsider was making when it died.
void RepairMove() {
  ShmMove& move = g_runtime.header->move;
  const uint64_t of = move.of.load(kRelaxed);
  const uint32_t to = static_cast<uint32_t>(of >> 32), from = static_cast<uint32_t>(of) & ~kMovesInstance;
  const bool is_of_instance = (static_cast<uint32_t>(of) & kMovesInstance) != 0;
  const auto is_used = [](ArrayId id, uint32_t index) { return index != 0 && index < g_runtime.segment.array(id).used.load(kRelaxed); };
  if (is_used(ArrayId::kCells, to) && is_used(is_of_instance ? ArrayId::kInstances : ArrayId::kCells, from)) {
    HalfWord& gen = is_of_instance ? g_runtime.instances[from].gen : g_runtime.cells[from].gen;
    EndWriting(g_runtime.cells[to].seq);
    if ((gen.load(kRelaxed) & kMovedGen) == 0) {
      const CellWriter writer(g_runtime.cells[to].seq);
      CopyNumbers(move.before, g_runtime.cells[to]);
    }
  }
  move.of.store(0, kRelease);
  move.object.class_index.store(0, kRelease);
}

// Repairs the segment after an outsider died in its critical section. Rows that it was writing become readable again,
// and flag words follow the setup as far as it was changed.
void RepairSegment() {
  EndWriting(g_runtime.header->move_seq);
  EndWriting(g_runtime.header->rebase_seq);
  EndWritingIn(ArrayId::kActors, &ShmActor::seq);
  EndWritingIn(ArrayId::kObjectRules, &ShmObjectRule::seq);
  EndWritingIn(ArrayId::kFacts, &ShmFact::seq);
  RepairMove();
  EndWritingIn(ArrayId::kClasses, &ShmClass::fold_seq);
  RepairFreeLists();
  RepairPrincipals();
  RefreshSetup();
}

void Reindex() {
  ReindexPrincipals();
  ReindexFacts();
  ReindexDigests();
  ReindexSetup();
}

// Waits for an outsider that holds the lock. Returns true if it has left, or died and its place is taken. `*word` is
// the present word then.
bool AwaitOutsider(uint32_t* word) {
  const uint32_t outsider = *word;
  if (outsider == stuck_word && Now() < check_again_at) return false;
  if (outsider != stuck_word) {
    for (int i = 0; i < kNapsForOutsider && *word == outsider; ++i) {
      Nap();
      *word = Holder().load(kRelaxed);
    }
    if (*word != outsider) return true;
  }
  uint32_t expected = outsider;
  const uint32_t taken = (outsider & ~kColdHolderMask) | kInsider;
  if (OutsiderIsDead() && Holder().compare_exchange_strong(expected, taken, kAcquire, kRelaxed)) {
    *word = taken;
    return true;
  }
  stuck_word = outsider;
  check_again_at = Now() + kNapsForOutsider * kNapNanos;
  return false;
}

bool EnterSegment() {
  uint32_t word = Holder().load(kRelaxed);
  for (;;) {
    if (HolderOf(word) == kFree) {
      if (Holder().compare_exchange_weak(word, word | kInsider, kAcquire, kRelaxed)) break;  // pairs with LeaveSegment and ~OutsiderSection
      continue;
    }
    const int error = errno;
    const bool is_free = AwaitOutsider(&word);
    const bool is_taken_over = is_free && HolderOf(word) == kInsider;
    if (is_taken_over) RepairSegment();
    errno = error;
    if (!is_free) return false;
    if (is_taken_over) break;
  }
  if (const uint32_t section = word / kOutsiderSection; __builtin_expect(section != section_seen, 0)) {
    Reindex();
    section_seen = section;
  }
  return true;
}

// No other process stores to the word while this process holds it. Pairs with EnterSegment and OutsiderSection.
void LeaveSegment() { Holder().store(Holder().load(kRelaxed) & ~kColdHolderMask, kRelease); }

}  // namespace

// The thread that forks takes the cold lock before an allocator's handler waits for the allocator's locks, if pfs came late. A thread that
// has one of these must not wait for the cold lock for long.
static bool LockInLateProcess() {
  constexpr long kSecond = 1'000'000'000;
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kNapsForOutsider * kNapNanos;
  until.tv_sec += until.tv_nsec / kSecond;
  until.tv_nsec %= kSecond;
  return pthread_mutex_timedlock(&g_forking.cold_mutex, &until) == 0;
}

bool LockCold() {
  if (__builtin_expect(!g_came_late, 1)) {
    pthread_mutex_lock(&g_forking.cold_mutex);
  } else if (!LockInLateProcess()) {
    return false;
  }
  g_forking.is_inside = false;
  bool is_open = true;
  if (outsider_descriptor >= 0) {
    is_open = is_in_section;
  } else if (g_runtime.on && !IsStillForked()) {  // a child that begins with this lock has no segment of its own yet
    is_open = g_forking.is_inside = EnterSegment();
  }
  if (!is_open) pthread_mutex_unlock(&g_forking.cold_mutex);
  return is_open;
}

void UnlockCold() {
  if (g_forking.is_inside) LeaveSegment();
  g_forking.is_inside = false;
  pthread_mutex_unlock(&g_forking.cold_mutex);
}

void EnterSegmentInChild() {
  Holder().store((Holder().load(kRelaxed) & ~kColdHolderMask) | kInsider, kRelaxed);
  g_forking.is_inside = true;
}

PFS_IN_EVERY_PROCESS void ContinueColdLockInChild(bool was_locked, bool has_segment) {
  if (has_segment && HolderOf(Holder().load(kRelaxed)) == kOutsider) {
    stuck_word = Holder().load(kRelaxed);  // dead, for this process: no outsider has a lock on its file
    check_again_at = 0;
  }
  if (!was_locked) return;
  // The copy may have been made before or after the parent released its own word.
  if (has_segment && g_forking.is_inside) Holder().store(Holder().load(kRelaxed) & ~kColdHolderMask, kRelease);
  g_forking.is_inside = false;
#if defined(PFS_SANITIZED)
  pthread_mutex_init(&g_forking.cold_mutex, nullptr);  // tells the sanitizer
#else
  constexpr pthread_mutex_t kUnlocked = PTHREAD_MUTEX_INITIALIZER;
  g_forking.cold_mutex = kUnlocked;
#endif
}

void AwaitLockFreePath() {
  // A thread that has not left the path in all that time never will: the segment is damaged. Later calls do not wait for it again.
  static int patience = kNapsForInsider;  // guarded by the cold lock
  if (!g_runtime.on) return;
  BarrierInAllThreads();  // a later thread on the path sees all earlier stores; pairs with OnLockFreePath
  const uint64_t used = g_runtime.segment.array(ArrayId::kFreeLists).used.load(kAcquire);
  for (uint64_t i = 1; i < used; ++i) {
    const HalfWord& is_busy = g_runtime.free_lists[i].is_busy;
    bool has_napped = false;
    for (int tries = 0; is_busy.load() != 0 && patience > 0; ++tries) {  // pairs with ~OnLockFreePath
      if (tries <= 1000) continue;
      has_napped = true;
      --patience;
      Nap();
    }
    if (has_napped && patience > 0) patience = kNapsForInsider;
  }
}

void CloseLockFreePath() {
  if (!g_forking.is_inside) return;
  Holder().fetch_or(kLockFreePathClosed);
  AwaitLockFreePath();
}

void OpenLockFreePath() {
  if (g_forking.is_inside) Holder().fetch_and(~uint32_t{kLockFreePathClosed});
}

void BecomeOutsider(int descriptor) { outsider_descriptor = descriptor; }

OutsiderSection::OutsiderSection() {
  struct flock lock = FirstByte();
  for (int naps = 0; fcntl(outsider_descriptor, F_OFD_SETLK, &lock) != 0; ++naps) {
    if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || naps == kNapsForInsider) {
      status_ = Status(Code::kState, "another process is changing it and does not end; nothing was changed");
      return;
    }
    Nap();
  }
  uint32_t word = Holder().load(kRelaxed);
  for (int naps = 0;;) {
    const bool is_left_over = HolderOf(word) == kOutsider;  // no other outsider has the file lock
    if (is_left_over || HolderOf(word) == kFree) {
      const uint32_t mine = ((word & ~kColdHolderMask) + kOutsiderSection) | kOutsider;
      if (!Holder().compare_exchange_weak(word, mine, kAcquire, kRelaxed)) continue;  // pairs with LeaveSegment
      is_in_section = true;
      const bool is_closed = BarrierInProgram();  // from here on no thread enters the lock-free path
      if (!g_runtime.segment.FollowGrowth(outsider_descriptor)) {
        status_ = Status(Code::kState, "no memory for what the process has added to its tables; nothing was changed");
        return;
      }
      status_ = CheckAdopted();
      if (!status_.ok()) return;
      if (!is_closed && AnyListIsLight()) {
        status_ = Status(Code::kState, "the system refuses membarrier() to this process, but not to the other one; nothing was changed");
        return;
      }
      ReindexClasses();
      Reindex();
      if (is_left_over) RepairSegment();
      return;
    }
    if (++naps == kNapsForInsider) {
      status_ = Status(Code::kState, "the process is stopped, or hangs, while it makes an object of pfs; nothing was changed");
      return;
    }
    Nap();
    word = Holder().load(kRelaxed);
  }
}

OutsiderSection::~OutsiderSection() {
  if (is_in_section) Holder().fetch_sub(kOutsider, kRelease);  // pairs with EnterSegment
  is_in_section = false;
  struct flock lock = FirstByte();
  lock.l_type = F_UNLCK;
  (void)fcntl(outsider_descriptor, F_OFD_SETLK, &lock);
}

}  // namespace perfschema
