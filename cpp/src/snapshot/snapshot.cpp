#include "snapshot/snapshot.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>

#include "shm/attach.h"
#include "shm/shapes.h"
#include "shm/writer.h"
#include "snapshot/state.h"

namespace perfschema {
namespace {

constexpr uint64_t kBlockBytes = 16 * 1024;

// Turns ThreadCells into thread_cells.
std::string Lower(std::string_view name) {
  std::string lower;
  for (const char c : name) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    if (is_upper && !lower.empty()) lower += '_';
    lower += is_upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return lower;
}

bool IsReadable(const SegmentView& view) { return view.ok() && view.bytes() >= kHeaderCapacity; }
constexpr bool IsOfPool(ArrayId id) {
  return std::find(kChunksOf, std::end(kChunksOf), id) != std::end(kChunksOf) ||
         std::find(kRecordsOf, std::end(kRecordsOf), id) != std::end(kRecordsOf);
}
// Rows that the program declares exist while pfs is off.
constexpr bool IsDeclared(ArrayId id) { return id == ArrayId::kFacts || id == ArrayId::kFactBlocks || id == ArrayId::kErrorLog; }
// Cells by thread, account, user, host, all are reserved in ranges: the member says what may be read.
constexpr bool IsInRanges(ArrayId id) {
  return id == ArrayId::kThreadCells || id == ArrayId::kAccountCells || id == ArrayId::kUserCells || id == ArrayId::kHostCells ||
         id == ArrayId::kGlobalCells;
}

}  // namespace

Snapshot::Snapshot(const SegmentView& view, Quiesce quiesce, const SegmentView& facts) : view_(view), quiesce_(std::move(quiesce)) {
  const auto open = [&]<typename T>(ArrayId id, ArrayView<T>* array) {
    const SegmentView& home = IsDeclared(id) && !view.ok() ? facts : view;
    if (!IsOfPool(id) && IsReadable(home))
      *array = {home, id, IsInRanges(id) ? ArrayView<T>::Extent::kWhole : ArrayView<T>::Extent::kReserved};
  };
#define X(name, type) open(ArrayId::name, &std::get<static_cast<size_t>(ArrayId::name)>(arrays_));
  PFS_FOR_EACH_ARRAY(X)
#undef X
  ok_ = IsReadable(view);
  if (!ok_) return;
  for (uint32_t i = 0; i < kEventKinds; ++i) pools_[i] = {view, static_cast<Kind>(i)};
  LoadClasses();
}

std::string_view Snapshot::Keep(std::string_view text) const {
  if (text.empty()) return "";
  if (text.size() > free_bytes_) {
    free_bytes_ = std::max<size_t>(kBlockBytes, text.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(free_bytes_));
    free_begin_ = blocks_.back().get();
  }
  char* kept = free_begin_;
  std::memcpy(kept, text.data(), text.size());
  free_begin_ += text.size();
  free_bytes_ -= text.size();
  return {kept, text.size()};
}

void Snapshot::LoadClasses() {
  const auto& shared = array<ArrayId::kClasses>();
  const uint64_t used = std::min(shared.used(), kMostClasses);  // more is damage
  classes_.reserve(used);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmClass* shm = shared.at(i);
    if (shm == nullptr) break;
    if (shm->ready.load(kAcquire) == 0) continue;  // pairs with registration
    const uint32_t family = shm->family;
    if (family == 0 || family >= static_cast<uint32_t>(kFamilyCount)) continue;
    ClassRow row{};
    row.index = static_cast<uint32_t>(i);
    row.family = static_cast<Family>(family);
    row.key = shm->key;
    row.name = std::string_view(reinterpret_cast<const char*>(shm->name), std::min<size_t>(shm->name_bytes, sizeof shm->name));
    row.enabled = shm->enabled.load(kRelaxed) != 0;
    row.timed = static_cast<Timing>(std::min(shm->timed.load(kRelaxed), static_cast<uint32_t>(kLastTiming)));
    row.step = static_cast<Step>(std::min(shm->step.load(kRelaxed), static_cast<uint32_t>(kLastStep)));
    row.trace_enabled = shm->trace_enabled.load(kRelaxed) != 0;
    row.properties = shm->properties;
    row.controlled = shm->controlled.load(kRelaxed) != 0;
    row.volatility = shm->volatility;
    row.error_number = shm->error_number;
    row.sqlstate = std::string_view(reinterpret_cast<const char*>(shm->sqlstate), strnlen(reinterpret_cast<const char*>(shm->sqlstate), 5));
    const size_t documentation = std::min<size_t>(shm->documentation_bytes, sizeof shm->documentation);
    if (documentation != 0)
      row.documentation = LongText(std::string_view(reinterpret_cast<const char*>(shm->documentation), documentation));
    classes_.push_back(row);
  }
  // Instruments that no program has registered: the memory of pfs itself, array by array.
  const std::vector<ArrayRow> arrays = Arrays(view_);
  for (size_t i = 0; i < arrays.size(); ++i) {
    ClassRow row{};
    row.family = Family::kOwnMemory;
    row.key = static_cast<uint32_t>(i) + 1;
    row.name = Keep("memory/performance_schema/" + Lower(arrays[i].name.view()));
    row.enabled = true;
    row.properties = kPropertyGlobal;
    row.volatility = 1;
    classes_.push_back(row);
  }
  std::stable_sort(classes_.begin(), classes_.end(),
                   [](const ClassRow& a, const ClassRow& b) { return a.family != b.family ? a.family < b.family : a.key < b.key; });
  class_at_.assign(std::max<uint64_t>(used, 1), nullptr);  // made-up instruments have no index
  for (const ClassRow& row : classes_) {
    if (row.index != 0) class_at_[row.index] = &row;
    if (row.kind() != Kind::kNone) classes_of_[static_cast<uint32_t>(row.kind())].push_back(&row);
  }
}

bool Snapshot::WriterRests() const {
  const SegmentFile* const file = view_.file();
  if (rests_ || file == nullptr) return rests_;
  if (!has_asked_) {
    has_asked_ = true;
    const WriterState state = StateOfWriter(header(), file->path().substr(file->path().rfind('/') + 1));
    rests_ = state == WriterState::kAtRest;
    is_unknown_ = state == WriterState::kUnknown;
  }
  rests_ = rests_ || (is_unknown_ && patience_ <= 0);
  return rests_;
}

bool Snapshot::IsUnderWay(const HalfWord& seq, uint32_t value) const {
  if ((value & 1) == 0) return false;
  if (!WriterRests()) return true;
  repaired_.insert(&seq);
  return false;
}

void Snapshot::StartWalks() const {
  steps_left_ =
      4 * (array<ArrayId::kCells>().used() + array<ArrayId::kStatementCells>().used() + array<ArrayId::kIndexes>().used()) + 1'000'000;
}

bool Snapshot::MayTryAgain() const {
  if (view_.file() == nullptr) return true;
  constexpr uint64_t kLongest = 500'000'000;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t now_ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  if (first_retry_ns_ == 0) first_retry_ns_ = now_ns;
  return now_ns - first_retry_ns_ < kLongest;
}

bool Snapshot::ReadSettled(const std::function<bool()>& read, Quiet quiet) const {
  constexpr int kAttempts = 20;
  bool is_whole = false;
  for (int attempt = 0; attempt < kAttempts && !is_whole && (attempt == 0 || MayTryAgain()); ++attempt) {
    if (attempt > 2) {
      const timespec nap{0, 20'000 * attempt};
      nanosleep(&nap, nullptr);
    }
    is_whole = read();
  }
  if (!is_whole && quiet == Quiet::kMayQuiesce && quiesce_) quiesce_([&] { is_whole = read(); });
  if (is_whole) return true;
  patience_ = 0;  // after all attempts have failed: one more makes sense if the writer rests
  return WriterRests() && read();
}

bool Snapshot::CopyName(uint32_t granule, uint32_t version, std::string_view* name) const {
  const uint64_t id = uint64_t{granule} << 32 | version;
  if ((version & 1) != 0) return false;
  if (const std::string_view* const seen = names_seen_.Find(id); seen != nullptr) {
    *name = *seen;
    return true;
  }
  if (!CopyNewName(granule, version, name)) return false;
  names_seen_.Add(id, *name);
  return true;
}

bool Snapshot::CopyNewName(uint32_t granule, uint32_t version, std::string_view* name) const {
  const ShmNameGranule* first = array<ArrayId::kNames>().at(granule);
  if (first == nullptr || (version & 1) != 0) return false;
  if (const uint32_t now = first->version.load(kAcquire); now != version) {
    if (now == version + 1) (void)IsUnderWay(first->version, now);  // reused for a name that never came: the row has none
    return false;
  }
  const uint32_t bytes = first->bytes.load(kAcquire);
  constexpr uint32_t kHead = offsetof(ShmNameGranule, text);
  if (bytes == 0 || bytes > kMaxObjectName) return false;
  if (array<ArrayId::kNames>().at(granule, 1 + (kHead + bytes - 1) / sizeof(ShmNameGranule)) == nullptr) return false;
  // Copies word by word: the granules may be given to another name meanwhile, which the version tells afterwards.
  uint64_t copy[kMaxObjectName / 8];
  const auto* words = reinterpret_cast<const uint64_t*>(reinterpret_cast<const char*>(first) + kHead);
  const uint32_t word_count = (bytes + 7) / 8;  // the last granule ends on a word
  for (uint32_t i = 0; i < word_count; ++i) copy[i] = __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
  if (first->version.load(kRelaxed) != version) return false;
  *name = Keep({reinterpret_cast<const char*>(copy), bytes});
  return true;
}

std::optional<Text<64>> Snapshot::SourceText(uint64_t index) const {
  const ShmSource* source = array<ArrayId::kSources>().at(index);
  const uint32_t bytes = source == nullptr ? 0 : source->bytes.load(kAcquire);  // pairs with the interning
  if (bytes == 0) return {};
  return std::string_view(reinterpret_cast<const char*>(source->text), std::min<size_t>(bytes, sizeof source->text));
}

}  // namespace perfschema
