// background/governor.cpp: the thread that keeps what pfs costs below a ceiling (performance_schema_overhead_limit).
//
// It exists only if there is a ceiling, or was one, sleeps nearly always, and adds nothing to a probe. In each period it takes the counts
// of all instruments, multiplies them by prices, and divides by the processor time of the process. Then it makes instruments cheaper or
// dearer (setup/ceiling.h). Prices are computed from what this processor needs for a reading of the timer, for a line that is not in the
// nearest cache, and for an instruction. It measures these between other work: in a loop they are two times too low.
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "background/own_thread.h"
#include "record/engine/no_signals.h"
#include "record/probe/trace.h"
#include "setup/ceiling.h"
#include "snapshot/objects.h"
#include "snapshot/snapshot.h"
#include "snapshot/sums.h"

namespace perfschema {
namespace {

constexpr int64_t kShortestNap = 100'000'000, kLongestNap = 2'000'000'000;  // nanoseconds
constexpr int64_t kNapsPerPass = 2000;                                      // the thread itself takes 1 / 2000 of one processor at most
constexpr double kMillion = 1e6;
constexpr double kGoal = 0.7;                         // of the limit: where steps lead to
constexpr double kSafety = 1.3;                       // a program's caches hold less of pfs than those of the calibration
constexpr uint32_t kLongestWait = 64, kOffWait = 30;  // periods
constexpr size_t kGovernorStackBytes = 1u << 20;

int64_t Nanos(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// ---- Prices --------------------------------------------------------------------------------------------------------------------------

// What an event makes the processor do beyond the plain call. Lines: docs/howto/production.md; instructions: tests/bench/baseline.json.
struct Work {
  double readings, lines, instructions;
};
struct Works {
  Work full, counted;
};
Works WorksOf(const ClassRow& row) {
  switch (row.kind()) {
    case Kind::kStage:
      return {{2, 60, 600}, {0, 30, 300}};
    case Kind::kStatement:
      return {{2, 140, 3000}, {0, 80, 900}};
    case Kind::kTransaction:
      return {{2, 60, 700}, {0, 40, 400}};
    default:
      break;
  }
  switch (row.family) {
    case Family::kFile:
    case Family::kSocket:
      return {{2, 39, 200}, {0, 20, 120}};
    case Family::kTableIo:
    case Family::kTableLock:
      return {{2, 50, 260}, {0, 25, 150}};
    case Family::kMetadata:
    case Family::kIdle:
      return {{2, 43, 240}, {0, 22, 130}};
    default:
      return {{2, 26, 165}, {0, 12, 95}};
  }
}

// Nanoseconds that one reading, line or instruction adds to a program that does something between.
struct Prices {
  double reading = 0, line = 0, instruction = 0;
  double Of(const Work& work) const { return kSafety * (work.readings * reading + work.lines * line + work.instructions * instruction); }
};

class Calibration {
 public:
  Prices Measure() {
    constexpr int kBlocks = 12;
    double bare = 1e9, chain = 1e9, readings = 1e9, lines = 1e9, instructions = 1e9;
    for (int i = 0; i < kBlocks; ++i) {
      bare = std::min(bare, Block([] {}));
      chain = std::min(chain, Block([this] { Chain(8); }));
      readings = std::min(readings, Block([this] {
                            const uint64_t begin = ReadCycle();
                            Chain(8);
                            sum_ += ReadCycle() - begin;
                          }));
      lines = std::min(lines, Block([this] { Touch(others_, kLines); }));
      instructions = std::min(instructions, Block([this] { Mix(); }));
    }
    const auto each = [](double nanos, double count, double least) { return std::max(nanos / count, least); };
    return {each(readings - chain, 2, 2), each(lines - bare, kLines, 0.2), each(instructions - bare, kMixed, 0.05)};
  }

 private:
  static constexpr int kTurns = 400, kMixed = 160;
  static constexpr size_t kLines = 16, kFar = 2048;  // 128 KiB: out of the first cache
  // Returns nanoseconds of a turn that does `more` between other work: a chain, and loads of other lines.
  template <typename More>
  double Block(More more) {
    const int64_t begin = Nanos(CLOCK_THREAD_CPUTIME_ID);
    for (int turn = 0; turn < kTurns; ++turn) {
      Chain(20);
      Touch(lines_, 12);
      more();
    }
    return static_cast<double>(Nanos(CLOCK_THREAD_CPUTIME_ID) - begin) / kTurns;
  }
  [[gnu::noinline]] void Chain(int length) {
    for (int i = 0; i < length; ++i) sum_ = sum_ * 6364136223846793005u + 1442695040888963407u;
  }
  [[gnu::noinline]] void Touch(std::vector<uint64_t>& lines, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      next_ = (next_ + 97) % kFar;
      lines[next_ * 8] += 1;
    }
  }
  [[gnu::noinline]] void Mix() {
    uint64_t a = sum_, b = a ^ 1, c = a + 2, d = a - 3;
    for (int i = 0; i < kMixed / 8; ++i) {
      a += b, c ^= a, b -= d, d += c;
      asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
      a ^= 5, c += 7, b ^= 9, d -= 11;
      asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
    sum_ += a + b + c + d;
  }

  uint64_t sum_ = 1;
  size_t next_ = 0;
  std::vector<uint64_t> lines_ = std::vector<uint64_t>(kFar * 8), others_ = std::vector<uint64_t>(kFar * 8);
};

// ---- Decisions -----------------------------------------------------------------------------------------------------------------------

class Governor {
 public:
  Governor() : prices_(Calibration().Measure()) {}

  // Looks at what has happened since the last call, and changes what must be changed.
  void Pass() {
    ShmGovernor& shared = g_runtime.header->governor;
    const double limit = static_cast<double>(shared.limit_ppm.load(kRelaxed)) / kMillion;
    if (limit == 0) {
      is_resting_ = true;
      return;
    }
    Count();
    const int64_t now = Nanos(CLOCK_MONOTONIC), cpu = Nanos(CLOCK_PROCESS_CPUTIME_ID);
    const double seconds = static_cast<double>(now - then_) / 1e9, spent = static_cast<double>(cpu - before_);
    then_ = now;
    before_ = cpu;
    shared.periods.store(shared.periods.load(kRelaxed) + 1, kRelaxed);
    // What was counted while there was no ceiling has no processor time beside it.
    if (std::exchange(is_resting_, false)) return;
    if (spent < kLeastSpent) return;  // an idle program pays nothing that could be seen
    double sum = 0;
    for (Seen& seen : seen_) sum += seen.nanos = Cost(seen, seen.step);
    const double overhead = sum / spent;
    shared.overhead_ppm.store(static_cast<uint64_t>(overhead * kMillion), kRelaxed);
    may_disable_ = shared.may_disable.load(kRelaxed) != 0;
    changes_.clear();
    if (overhead > limit) {
      MakeCheaper(sum, kGoal * limit * spent);
    } else {
      MakeDearer(sum, kGoal * limit * spent);
    }
    for (StepChange& change : changes_) {
      const Seen& seen = seen_[change.class_index];
      change.overhead_ppm = static_cast<uint64_t>(overhead * kMillion);
      change.class_ppm = static_cast<uint64_t>(seen.nanos / spent * kMillion);
      change.events_per_second = static_cast<uint64_t>(static_cast<double>(seen.events) / seconds);
    }
    if (!changes_.empty()) ApplySteps(changes_);
  }

 private:
  static constexpr double kLeastSpent = 1e6;  // nanoseconds
  struct Seen {
    uint64_t count = 0;                         // so far
    uint64_t events = 0;                        // in this period
    double full = 0, sampled = 0, counted = 0;  // prices
    double nanos = 0;
    Step step = Step::kFull;
    bool may_step = false;
    uint32_t wait = 0, longest_wait = 1;  // periods until it may become dearer again
  };

  static double PriceAt(const Seen& seen, Step step) {
    switch (step) {
      case Step::kFull:
        return seen.full;
      case Step::kSampled:
        return seen.sampled;
      case Step::kCounted:
        return seen.counted;
      case Step::kOff:
        break;
    }
    return 0;
  }
  static double Cost(const Seen& seen, Step step) { return static_cast<double>(seen.events) * PriceAt(seen, step); }
  static Step Next(Step step) { return static_cast<Step>(static_cast<uint32_t>(step) + 1); }
  static Step Previous(Step step) { return static_cast<Step>(static_cast<uint32_t>(step) - 1); }

  void Count() {
    const Snapshot snapshot(OwnSegmentState().view());
    for (Seen& seen : seen_) seen.events = 0;
    const auto note = [&](const ClassRow& row, uint64_t count) {
      if (row.index >= seen_.size()) seen_.resize(row.index + 1);
      Seen& seen = seen_[row.index];
      seen.events = count - (count < seen.count ? 0 : seen.count);  // less: a TRUNCATE
      seen.count = count;
      const Works works = WorksOf(row);
      const double interval = g_runtime.sampling_interval;
      seen.counted = prices_.Of(works.counted);
      // What setup_instruments leaves may be cheaper than everything.
      const bool is_lock = row.family == Family::kMutex || row.family == Family::kRwlock;
      seen.sampled = seen.counted + (row.is_wait() ? prices_.Of(works.full) / interval : prices_.Of(works.full) - seen.counted);
      const bool is_cheap = row.timed == Timing::kSampled || (row.timed == Timing::kContended && is_lock);
      const bool is_untimed = row.timed == Timing::kNo || row.timed == Timing::kState;
      seen.full = is_untimed ? seen.counted : is_cheap ? seen.sampled : prices_.Of(works.full);
      if (is_untimed) seen.sampled = seen.counted;
      seen.step = StepOf(g_runtime.classes[row.index]);
      seen.may_step = row.enabled && !row.trace_enabled;
    };
    ForEachClassTotal(snapshot, [&](const ClassTotalRow& row) { note(*row.instrument, row.lanes.total().count); });
    for (const Kind kind : {Kind::kStage, Kind::kStatement, Kind::kTransaction}) {
      ForEachSum(snapshot, kind, Level::kGlobal, [&](const SumRow& row) {
        uint64_t count = StatIn(row.numbers, 0).count;
        if (kind == Kind::kTransaction) count += StatIn(row.numbers, kReadOnlyWord).count;
        note(*row.instrument, count);
      });
    }
  }

  Step Last() const { return may_disable_ ? Step::kOff : Step::kCounted; }
  void Change(size_t at, Step to) {
    seen_[at].step = to;
    for (StepChange& change : changes_) {
      if (change.class_index == at) {
        change.to = to;
        return;
      }
    }
    changes_.push_back({static_cast<uint32_t>(at), to, 0, 0, 0});
  }

  // The step that saves most comes first.
  void MakeCheaper(double sum, double goal) {
    while (sum > goal) {
      size_t best = seen_.size();
      double most = 0;
      for (size_t i = 0; i < seen_.size(); ++i) {
        const Seen& seen = seen_[i];
        if (!seen.may_step || seen.step >= Last()) continue;
        const double saved = Cost(seen, seen.step) - Cost(seen, Next(seen.step));
        // A step that saves nothing itself may lead to one that does.
        const double later = Cost(seen, seen.step) - Cost(seen, Last());
        const double gain = saved > 0 ? saved : later / 2;
        if (gain > most) most = gain, best = i;
      }
      if (best == seen_.size()) return;
      Seen& seen = seen_[best];
      sum -= Cost(seen, seen.step) - Cost(seen, Next(seen.step));
      Change(best, Next(seen.step));
      seen.longest_wait = std::min(2 * seen.longest_wait, kLongestWait);
      seen.wait = seen.step == Step::kOff ? kOffWait : seen.longest_wait;
    }
  }

  // The cheapest events become dearer first. An instrument without events stays: nobody knows what it will cost.
  void MakeDearer(double sum, double goal) {
    std::vector<std::pair<double, size_t>> wanted;
    for (size_t i = 0; i < seen_.size(); ++i) {
      Seen& seen = seen_[i];
      if (!seen.may_step || seen.step == Step::kFull) continue;
      if (seen.wait > 0) {
        --seen.wait;
      } else if (seen.step == Step::kOff) {
        Change(i, Step::kCounted);
      } else if (seen.events != 0) {
        wanted.emplace_back(Cost(seen, Previous(seen.step)) - Cost(seen, seen.step), i);
      }
    }
    std::sort(wanted.begin(), wanted.end());
    for (const auto& [more, at] : wanted) {
      if (sum + more > goal) return;
      sum += more;
      Change(at, Previous(seen_[at].step));
    }
  }

  const Prices prices_;
  int64_t before_ = 0, then_ = 0;  // processor time and wall clock of the last pass
  bool may_disable_ = false, is_resting_ = true;
  std::vector<Seen> seen_;  // by class
  std::vector<StepChange> changes_;
};

// ---- The thread ----------------------------------------------------------------------------------------------------------------------

pthread_mutex_t governor_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<bool> governor_runs{false};

void* RunGovernor(void*) {
  BecomeOwnThread("pfs-governor");
  try {
    Governor governor;
    for (;;) {  // also without a limit from now on: another process may set one again
      const int64_t begin = Nanos(CLOCK_THREAD_CPUTIME_ID);
      governor.Pass();
      const int64_t nap = g_runtime.header->governor.limit_ppm.load(kRelaxed) == 0
                              ? kLongestNap
                              : std::clamp(kNapsPerPass * (Nanos(CLOCK_THREAD_CPUTIME_ID) - begin), kShortestNap, kLongestNap);
      const timespec time{nap / 1'000'000'000, nap % 1'000'000'000};
      nanosleep(&time, nullptr);
    }
  } catch (const std::bad_alloc&) {
    // Instruments stay as they are.
  }
  governor_runs.store(false);
  return nullptr;
}

}  // namespace

void GovernorMayBegin() {
  if (__builtin_expect(g_runtime.header == nullptr || g_runtime.header->governor.limit_ppm.load(kRelaxed) == 0, 1)) return;
  if (governor_runs.load(kRelaxed) || t_locals.ended || IsStillForked()) return;
  const int error = errno;
  const NoSignals no_signals;  // a longjmp would leave the mutex locked
  g_forking.governor_may_run = true;
  pthread_mutex_lock(&governor_mutex);
  if (!governor_runs.exchange(true)) {
    pthread_t thread;
    if (!StartOwnThread(thread, kGovernorStackBytes, JoinState::kDetached, RunGovernor, nullptr)) governor_runs.store(false);
  }
  pthread_mutex_unlock(&governor_mutex);
  errno = error;
}

void ForgetGovernorInChild() {
  pthread_mutex_init(&governor_mutex, nullptr);
  governor_runs.store(false);
}

}  // namespace perfschema
