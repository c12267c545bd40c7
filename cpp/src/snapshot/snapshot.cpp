#include "snapshot/snapshot.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>

#include "shm/attach.h"
#include "shm/shapes.h"
#include "shm/writer.h"
#include "snapshot/try_read.h"

namespace perfschema {
namespace {

constexpr uint64_t kBlockBytes = 16 * 1024;

template <size_t N>
std::string_view ZeroPadded(const uint8_t (&bytes)[N]) {
  const char* text = reinterpret_cast<const char*>(bytes);
  return {text, strnlen(text, N)};
}

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

}  // namespace

Snapshot::Snapshot(const SegmentView& view, Quiesce quiesce, const SegmentView& facts) : view_(view), quiesce_(std::move(quiesce)) {
  if (const SegmentView& home = view.ok() ? view : facts; home.ok() && home.bytes() >= kHeaderCapacity) {
    facts_ = {home, ArrayId::kFacts};
    fact_blocks_ = {home, ArrayId::kFactBlocks};
    log_units_ = {home, ArrayId::kErrorLog};
  }
  if (!view.ok() || view.bytes() < kHeaderCapacity) return;
  ok_ = true;
  class_array_ = {view, ArrayId::kClasses};
  threads_ = {view, ArrayId::kThreads};
  thread_texts_ = {view, ArrayId::kThreadTexts};
  constexpr ArrayId kRows[] = {ArrayId::kThreadCells, ArrayId::kAccountCells, ArrayId::kUserCells, ArrayId::kHostCells,
                               ArrayId::kGlobalCells};
  for (uint32_t i = 0; i < kLevelCount; ++i) rows_[i] = {view, kRows[i], ArrayView<ShmCell>::Extent::kWhole};
  constexpr ArrayId kPrincipals[] = {ArrayId::kCount, ArrayId::kAccounts, ArrayId::kUsers, ArrayId::kHosts};
  for (uint32_t i = 1; i < std::size(kPrincipals); ++i) principals_[i] = {view, kPrincipals[i]};
  actors_ = {view, ArrayId::kActors};
  instrument_rules_ = {view, ArrayId::kInstrumentRules};
  instances_ = {view, ArrayId::kInstances};
  instance_lists_ = {view, ArrayId::kInstanceLists};
  holds_ = {view, ArrayId::kHolds};
  hold_totals_ = {view, ArrayId::kHoldTotals};
  files_ = {view, ArrayId::kFiles};
  tables_ = {view, ArrayId::kTables};
  indexes_ = {view, ArrayId::kIndexes};
  table_handles_ = {view, ArrayId::kTableHandles};
  metadata_locks_ = {view, ArrayId::kMetadataLocks};
  object_rules_ = {view, ArrayId::kObjectRules};
  cells_ = {view, ArrayId::kCells};
  retired_ = {view, ArrayId::kRetired};
  names_ = {view, ArrayId::kNames};
  sources_ = {view, ArrayId::kSources};
  statement_cells_ = {view, ArrayId::kStatementCells};
  statement_rests_ = {view, ArrayId::kStatementRests};
  histogram_parts_ = {view, ArrayId::kHistograms};
  histogram_blocks_ = {view, ArrayId::kHistogramBlocks};
  digests_ = {view, ArrayId::kDigests};
  digest_texts_ = {view, ArrayId::kDigestTexts};
  programs_ = {view, ArrayId::kPrograms};
  prepared_ = {view, ArrayId::kPrepared};
  for (uint32_t i = 0; i < kEventKinds; ++i) pools_[i] = {view, static_cast<Kind>(i)};
  LoadClasses();
}

TimerId Snapshot::timer_of(TimedClass id) const {
  const uint32_t stored = header().timer_of[static_cast<uint32_t>(id)].load(kRelaxed);
  return stored >= 1 && stored <= static_cast<uint32_t>(kTimerCount) ? static_cast<TimerId>(stored - 1) : TimerId::kCycle;
}

std::string_view Snapshot::status_reason() const { return Keep(ZeroPadded(header().status_reason)); }
std::string_view Snapshot::trace_status() const {
  uint64_t text[std::extent_v<decltype(ShmHeader::trace_status)>];
  return TryRead(header().trace_status_seq, [&] { LoadWords(header().trace_status, text); }) ? KeepWords(text) : std::string_view();
}
std::string_view Snapshot::timer_reason() const { return Keep(ZeroPadded(header().timer_reason)); }

std::vector<ArrayRow> Snapshot::Arrays() const {
  std::vector<ArrayRow> rows;
  if (!ok_) return rows;
  const auto add = [&](ArrayId id, std::string_view name) {
    const ShmArray& array = header().arrays[static_cast<uint32_t>(id)];
    rows.push_back({name.substr(1), view_.used(id), array.capacity, array.reserved.load(kRelaxed)});
  };
#define X(name, type) add(ArrayId::name, #name);
  PFS_FOR_EACH_ARRAY(X)
#undef X
  return rows;
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
  const uint64_t used = std::min(class_array_.used(), kMostClasses);  // more is damage
  classes_.reserve(used);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmClass* shm = class_array_.at(i);
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
  const std::vector<ArrayRow> arrays = Arrays();
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

uint64_t Snapshot::loss(Loss id) const {
  const uint64_t counted = header().losses[static_cast<uint32_t>(id)].load(kRelaxed);
  return counted + (id == Loss::kTornRows && view_.file() != nullptr ? view_.file()->rows_skipped() : 0);
}

uint64_t Snapshot::repaired_so_far() const { return ok_ && view_.file() != nullptr ? view_.file()->rows_repaired() : 0; }

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
  NoteRepaired(&seq);
  return false;
}

uint64_t Snapshot::MostSums(Kind kind) const {
  constexpr uint64_t kMostWordsOfTable = 8 << 20;  // about half a second to read
  return view_.file() == nullptr ? ~uint64_t{0} : kMostWordsOfTable / (8 * ColumnsOf(kind));
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
  if (!is_whole && GiveUpWaiting()) is_whole = read();
  return is_whole;
}

// Copies the name that begins at `granule`, if the granule is still of generation `version`.
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

// Does the same for a name that is read once: it is not searched among the names copied before.
bool Snapshot::CopyNewName(uint32_t granule, uint32_t version, std::string_view* name) const {
  const ShmNameGranule* first = names_.at(granule);
  if (first == nullptr || (version & 1) != 0) return false;
  if (const uint32_t now = first->version.load(kAcquire); now != version) {
    if (now == version + 1) (void)IsUnderWay(first->version, now);  // reused for a name that never came: the row has none
    return false;
  }
  const uint32_t bytes = first->bytes.load(kAcquire);
  constexpr uint32_t kHead = offsetof(ShmNameGranule, text);
  if (bytes == 0 || bytes > kMaxObjectName) return false;
  if (names_.at(granule, 1 + (kHead + bytes - 1) / sizeof(ShmNameGranule)) == nullptr) return false;
  // Copies word by word: the granules may be given to another name meanwhile, which the version tells afterwards.
  uint64_t copy[kMaxObjectName / 8];
  const auto* words = reinterpret_cast<const uint64_t*>(reinterpret_cast<const char*>(first) + kHead);
  const uint32_t word_count = (bytes + 7) / 8;  // the last granule ends on a word
  for (uint32_t i = 0; i < word_count; ++i) copy[i] = __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
  if (first->version.load(kRelaxed) != version) return false;
  *name = Keep({reinterpret_cast<const char*>(copy), bytes});
  return true;
}

// Returns SOURCE of a call site, nullopt if it has none.
std::optional<Text<64>> Snapshot::SourceText(uint64_t index) const {
  const ShmSource* source = sources_.at(index);
  const uint32_t bytes = source == nullptr ? 0 : source->bytes.load(kAcquire);  // pairs with the interning
  if (bytes == 0) return {};
  return std::string_view(reinterpret_cast<const char*>(source->text), std::min<size_t>(bytes, sizeof source->text));
}

void Snapshot::ForEachActor(const std::function<void(const ActorRow&)>& use) const {
  for (uint64_t i = 1; i < actors_.used(); ++i) {
    const ShmActor* shm = actors_.at(i);
    if (shm == nullptr) break;
    if (shm->is_live.load(kAcquire) == 0) continue;  // pairs with InsertActor
    uint64_t host[32], user[4], role[4];
    ActorRow row;
    const bool whole = TryRead(shm->seq, [&] {
      LoadWords(shm->host, host);
      LoadWords(shm->user, user);
      LoadWords(shm->role, role);
      row.enabled = shm->enabled.load(kAcquire) != 0;
      row.history = shm->history.load(kAcquire) != 0;
      row.traced = shm->traced.load(kAcquire) != 0;
    });
    if (shm->is_live.load(kAcquire) == 0) continue;  // deleted meanwhile
    if (!whole) {
      ++skipped_;
      continue;
    }
    row.host = KeepWords(host);
    row.user = KeepWords(user);
    row.role = KeepWords(role);
    use(row);
  }
}

std::vector<InstrumentRuleRow> Snapshot::InstrumentRules() const {
  std::vector<InstrumentRuleRow> rows;
  for (uint64_t i = 1; i < instrument_rules_.used(); ++i) {
    const ShmInstrumentRule* shm = instrument_rules_.at(i);
    if (shm == nullptr) break;
    const uint64_t ordinal = shm->ordinal.load(kAcquire);  // pairs with AddInstrumentRule
    if (ordinal == 0) continue;
    uint64_t pattern[kRulePatternBytes / 8];
    LoadWords(shm->pattern, pattern);
    const RuleSettings settings = RuleSettings::Unpack(shm->settings.load(kAcquire));
    if (shm->ordinal.load(kAcquire) == ordinal) rows.push_back({ordinal, KeepWords(pattern), settings});  // else it was removed meanwhile
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.ordinal < b.ordinal; });
  return rows;
}

}  // namespace perfschema
