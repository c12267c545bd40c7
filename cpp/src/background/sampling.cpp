#include "background/sampling.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/random.h"
#include "shm/writer.h"
#include "snapshot/moment.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

constexpr uint64_t kSecond = 1'000'000'000, kPicosPerNano = 1000, kPicosPerMicro = 1'000'000;
constexpr uint64_t kBetweenClocks = 60 * kSecond;  // the clocks of the program and of the wall are compared so often
constexpr uint64_t kLongestSleep = 50'000'000;     // Stop() waits for it

uint64_t NanosOf(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * kSecond + static_cast<uint64_t>(time.tv_nsec);
}

void SleepUntil(uint64_t nanos) {
  const timespec until{static_cast<time_t>(nanos / kSecond), static_cast<long>(nanos % kSecond)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

// The kernel's struct sched_attr, whose header contradicts glibc's <sched.h>.
struct SchedulingAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

// Makes this thread one that gets a processor when it wants one, while the object exists.
class Prompt {
 public:
  Prompt() {
    sched_param fifo{};
    fifo.sched_priority = 1;
    (void)syscall(SYS_sched_getattr, 0, &before_, sizeof before_, 0u);
    if (before_.policy != SCHED_OTHER) return;  // its owner has chosen
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &fifo) == 0) {
      name_ = "fifo";
      return;
    }
    SchedulingAttributes wanted = before_;
    wanted.size = sizeof wanted;
    wanted.runtime = 100'000;  // the slice, in nanoseconds: Linux 6.12 or later
    if (syscall(SYS_sched_setattr, 0, &wanted, 0u) == 0) name_ = "slice";
  }
  ~Prompt() {
    if (name_ == kNormal) return;
    before_.size = sizeof before_;
    (void)syscall(SYS_sched_setattr, 0, &before_, 0u);
  }
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;
  const char* name() const { return name_; }

 private:
  static constexpr const char* kNormal = "normal";
  SchedulingAttributes before_{};
  const char* name_ = kNormal;
};

}  // namespace

Sampling::Sampling(const SegmentView& view, double hz)
    : view_(view),
      period_(static_cast<uint64_t>(static_cast<double>(kSecond) / hz)),
      random_(NanosOf(CLOCK_MONOTONIC) | 1),
      first_id_(NanosOf(CLOCK_REALTIME) / 1000) {
  const ReadGuard reading(view.file());
  sampler_ = std::make_unique<SessionSampler>(view, view.file() != nullptr);
}

Sampling::~Sampling() = default;

void Sampling::TakeSample(uint64_t due, uint64_t now) {
  const uint64_t before = NanosOf(CLOCK_THREAD_CPUTIME_ID);
  // A row stands for two periods at most: nobody knows what happened while the sampler had no processor.
  const uint64_t weight = last_ == 0 ? period_ : std::min(now - last_, 2 * period_);
  const bool lists_strangers = now >= strangers_ + kSecond;
  if (lists_strangers) strangers_ = now;
  last_ = now;
  SessionSampler::Moment moment{};
  moment.id = first_id_ + samples_++;
  moment.weight = weight * kPicosPerNano;
  moment.lateness = (now - std::min(due, now)) * kPicosPerNano;
  // Whole microseconds on both clocks: the begin of a wait is the same in all samples of a minute, and takes little space in files.
  moment.now = PresentOf(view_.header()) / kPicosPerMicro * kPicosPerMicro;
  const auto by_program = static_cast<int64_t>(view_.header().epoch_unix_micros + moment.now / kPicosPerMicro);
  if (compared_ == 0 || now >= compared_ + kBetweenClocks) {
    compared_ = now;
    ahead_ = static_cast<int64_t>(NanosOf(CLOCK_REALTIME) / 1000) - by_program;
  }
  moment.unix_micros = by_program + ahead_;
  moment.left_out = view_.file() == nullptr ? static_cast<uint64_t>(syscall(SYS_gettid)) : 0;
  moment.lists_strangers = lists_strangers;
  sampler_->Sample(moment, &rows_);
  processor_ += NanosOf(CLOCK_THREAD_CPUTIME_ID) - before;
}

Status Sampling::StateOfProgram() {
  const SegmentFile* const file = view_.file();
  if (file == nullptr) return {};
  if (Status status = file->Check(); !status.ok()) return status;
  if (StateOfWriter(view_.header(), file->path().substr(file->path().rfind('/') + 1)) != WriterState::kAtRest) return {};
  // A process that is stopped rests, too, but goes on.
  const std::optional<ProcessStat> now = StatOfWriter(view_.header());
  const bool is_stopped = now && (now->state == 'T' || now->state == 't');
  return is_stopped ? Status() : Status(Code::kNotFound, "the process has ended");
}

Status Sampling::Run(uint64_t nanoseconds, TableData* data) {
  const ReadGuard reading(view_.file());
  const Prompt prompt;
  scheduling_ = prompt.name();
  Status status;
  uint64_t now = NanosOf(CLOCK_MONOTONIC);
  const uint64_t end = now + nanoseconds;
  while (!is_stopped() && now < end) {
    if (now < next_) {
      SleepUntil(std::min({next_, end, now + kLongestSleep}));
      now = NanosOf(CLOCK_MONOTONIC);
      continue;
    }
    if (now >= checked_ + kSecond) {
      checked_ = now;
      status = StateOfProgram();
      if (!status.ok()) break;
    }
    const uint64_t due = next_ == 0 ? now : next_;
    missed_ += (now - due) / period_;
    TakeSample(due, now);
    next_ = (now - due < period_ / 2 ? due : now) + period_ / 2 + NextRandom(&random_) % period_;  // without a burst after a late one
    now = NanosOf(CLOCK_MONOTONIC);
  }
  const NamedTable* table = nullptr;
  (void)FindTable("active_sessions", &table);
  *data = TableOf(*table, [&](RawSink& sink) {
    sink.Expect(rows_.size());
    rows_.ForEach(RowSink<SessionRow>(sink));
  });
  rows_.Clear();
  sampler_->Forget();
  return status;
}

}  // namespace perfschema
