#include "snapshot/moment.h"

#include <algorithm>

#include "base/clock.h"

namespace perfschema {
namespace {
thread_local ReadMoment* t_moment = nullptr;
}

ReadMoment::ReadMoment(std::optional<uint64_t> now, bool shows_elapsed, bool any_order, bool only_used)
    : now_(now),
      is_given_(now.has_value()),
      shows_elapsed_(shows_elapsed),
      any_order_(any_order),
      only_used_(only_used),
      before_(t_moment) {
  t_moment = this;
}

ReadMoment::~ReadMoment() { t_moment = before_; }

uint64_t ReadMoment::Now(const ShmHeader& header) {
  if (t_moment == nullptr) return PresentOf(header);
  if (!t_moment->now_) t_moment->now_ = PresentOf(header);
  return *t_moment->now_;
}

uint64_t ReadMoment::Since(const ShmHeader& header, uint64_t start) { return std::max(Now(header), start) - start; }

uint64_t ReadMoment::NowSeconds(const ShmHeader& header) {
  if (t_moment == nullptr || !t_moment->is_given_) return WallSeconds();
  return (header.epoch_unix_micros + *t_moment->now_ / 1'000'000) / 1'000'000;
}

bool ReadMoment::ShowsElapsed() { return t_moment != nullptr && t_moment->shows_elapsed_; }

bool ReadMoment::AnyOrder() { return t_moment != nullptr && t_moment->any_order_; }

bool ReadMoment::OnlyUsed() { return t_moment != nullptr && t_moment->only_used_; }

uint64_t PresentOf(const ShmHeader& header) {
  const TimerScale& cycle = header.timers[static_cast<uint32_t>(TimerId::kCycle)];
  return cycle.Picos(TimeBase::Of(cycle).Counter());
}

}  // namespace perfschema
