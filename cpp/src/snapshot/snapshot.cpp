#include "snapshot/snapshot.h"

#include <algorithm>
#include <cstring>

#include "snapshot/try_read.h"

namespace perfschema {
namespace {

constexpr uint64_t kBlockBytes = 16 * 1024;

template <size_t N>
std::string_view ZeroPadded(const uint8_t (&bytes)[N]) {
  const char* text = reinterpret_cast<const char*>(bytes);
  return {text, strnlen(text, N)};
}

}  // namespace

Snapshot::Snapshot(const SegmentView& view, Quiesce quiesce) : view_(view), quiesce_(std::move(quiesce)) {
  if (!view.ok() || view.bytes() < sizeof(ShmHeader)) return;
  ok_ = true;
  class_array_ = {view, ArrayId::kClasses};
  threads_ = {view, ArrayId::kThreads};
  constexpr ArrayId kRows[] = {ArrayId::kThreadCells, ArrayId::kAccountCells, ArrayId::kUserCells, ArrayId::kHostCells};
  for (uint32_t i = 0; i < kLevelCount; ++i) rows_[i] = {view, kRows[i], ArrayView<ShmCell>::Extent::kWhole};
  constexpr ArrayId kParties[] = {ArrayId::kCount, ArrayId::kAccounts, ArrayId::kUsers, ArrayId::kHosts};
  for (uint32_t i = 1; i < kLevelCount; ++i) parties_[i] = {view, kParties[i]};
  instances_ = {view, ArrayId::kInstances};
  instance_lists_ = {view, ArrayId::kInstanceLists};
  files_ = {view, ArrayId::kFiles};
  tables_ = {view, ArrayId::kTables};
  indexes_ = {view, ArrayId::kIndexes};
  table_handles_ = {view, ArrayId::kTableHandles};
  metadata_locks_ = {view, ArrayId::kMetadataLocks};
  object_rules_ = {view, ArrayId::kObjectRules};
  cells_ = {view, ArrayId::kCells};
  graves_ = {view, ArrayId::kGraves};
  names_ = {view, ArrayId::kNames};
  sources_ = {view, ArrayId::kSources};
  chunks_ = {view, ArrayId::kWaitChunks};
  records_ = {view, ArrayId::kWaitRecords,
              ArrayView<ShmWaitRecord>::Extent::kWhole};  // the used chunks say what may be read
  LoadClasses();
}

TimerId Snapshot::timer_of(TimedClass id) const {
  const uint32_t stored = header().timer_of[static_cast<uint32_t>(id)].load(kRelaxed);
  return stored >= 1 && stored <= static_cast<uint32_t>(kTimerCount) ? static_cast<TimerId>(stored - 1)
                                                                     : TimerId::kCycle;
}

std::string_view Snapshot::status_reason() const { return Keep(ZeroPadded(header().status_reason)); }
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
    blocks_.push_back(std::make_unique<char[]>(free_bytes_));
    free_begin_ = blocks_.back().get();
  }
  char* kept = free_begin_;
  std::memcpy(kept, text.data(), text.size());
  free_begin_ += text.size();
  free_bytes_ -= text.size();
  return {kept, text.size()};
}

void Snapshot::LoadClasses() {
  const uint64_t used = class_array_.used();
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
    row.name =
        std::string_view(reinterpret_cast<const char*>(shm->name), std::min<size_t>(shm->name_bytes, sizeof shm->name));
    row.enabled = shm->enabled.load(kRelaxed) != 0;
    row.timed = shm->timed.load(kRelaxed) != 0;
    row.trace_enabled = shm->trace_enabled.load(kRelaxed) != 0;
    row.properties = shm->properties;
    row.volatility = shm->volatility;
    const size_t documentation = std::min<size_t>(shm->documentation_bytes, sizeof shm->documentation);
    if (documentation != 0)
      row.documentation = LongText(std::string_view(reinterpret_cast<const char*>(shm->documentation), documentation));
    classes_.push_back(row);
  }
  std::stable_sort(classes_.begin(), classes_.end(), [](const ClassRow& a, const ClassRow& b) {
    return a.family != b.family ? a.family < b.family : a.key < b.key;
  });
  class_at_.assign(used, nullptr);
  for (const ClassRow& row : classes_) class_at_[row.index] = &row;
}

// The name that begins at `granule`, if the granule still lives its life number `version`.
bool Snapshot::CopyName(uint32_t granule, uint32_t version, std::string_view* name) const {
  const uint64_t id = uint64_t{granule} << 32 | version;
  if (const auto seen = names_seen_.find(id); seen != names_seen_.end()) {
    *name = seen->second;
    return true;
  }
  const ShmNameGranule* first = names_.at(granule);
  if (first == nullptr || (version & 1) != 0 || !names_.is_packed() || first->version.load(kAcquire) != version)
    return false;
  const uint32_t bytes = first->bytes.load(kAcquire);
  constexpr uint32_t kHead = offsetof(ShmNameGranule, text);
  if (bytes == 0 || bytes > kMaxObjectName) return false;
  const uint64_t last = granule + (kHead + bytes - 1) / sizeof(ShmNameGranule);
  if (names_.at(last) == nullptr) return false;
  // Word by word: the granules may be given to another name meanwhile, which the version tells afterwards.
  uint64_t copy[kMaxObjectName / 8];
  const auto* words = reinterpret_cast<const uint64_t*>(reinterpret_cast<const char*>(first) + kHead);
  const uint32_t word_count = (bytes + 7) / 8;  // the last granule ends on a word
  for (uint32_t i = 0; i < word_count; ++i) copy[i] = __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
  if (first->version.load(kRelaxed) != version) return false;
  *name = Keep({reinterpret_cast<const char*>(copy), bytes});
  names_seen_.emplace(id, *name);
  return true;
}

// SOURCE of a call site, nullopt if it has none.
std::optional<Text<64>> Snapshot::SourceText(uint64_t index) const {
  const ShmSource* source = sources_.at(index);
  const uint32_t bytes = source == nullptr ? 0 : source->bytes.load(kAcquire);  // pairs with the interning
  if (bytes == 0) return {};
  return std::string_view(reinterpret_cast<const char*>(source->text), std::min<size_t>(bytes, sizeof source->text));
}

bool Snapshot::ReadThread(uint32_t slot, ThreadRow* row) const {
  const ShmThread* shm = threads_.at(slot);
  if (shm == nullptr) return false;
  // A slot that changes hands while it is read is read again: its new thread is as live as any.
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint64_t thread_id = shm->thread_id.load(kAcquire);  // pairs with the registration's last store
    if (thread_id == 0) return false;
    uint64_t name[16], user[4], host[32], db[8];
    const auto load = [](const auto& from, auto& to) {
      for (size_t i = 0; i < std::size(to); ++i) to[i] = from[i].load(kAcquire);
    };
    if (!TryRead(shm->seq, [&] {
          load(shm->name, name);
          load(shm->user_name, user);
          load(shm->host_name, host);
          load(shm->db, db);
        })) {
      ++skipped_;
      return false;
    }
    const uint64_t os_id = shm->os_id.load(kAcquire);
    const uint64_t parent = shm->parent_thread_id.load(kAcquire);
    const uint64_t processlist_id = shm->processlist_id.load(kAcquire);
    row->slot = slot;
    row->thread_id = thread_id;
    row->flags = shm->flags.load(kAcquire);
    row->cells = shm->cells.load(kAcquire);
    if (shm->thread_id.load(kRelaxed) != thread_id) continue;
    const auto number = [](uint64_t value) { return value == 0 ? std::optional<uint64_t>() : value; };
    row->os_id = number(os_id);
    row->parent_thread_id = number(parent);
    row->processlist_id = number(processlist_id);
    row->name = KeepWords(name);
    row->user.reset();
    row->host.reset();
    row->db.reset();
    if (const auto text = KeepWords(user); !text.empty()) row->user = text;
    if (const auto text = KeepWords(host); !text.empty()) row->host = text;
    if (const auto text = KeepWords(db); !text.empty()) row->db = text;
    return true;
  }
  return false;
}

std::vector<ThreadRow> Snapshot::Threads() const {
  std::vector<ThreadRow> rows;
  ThreadRow row{};
  for (uint64_t slot = 1; slot < threads_.used(); ++slot) {
    if (ReadThread(static_cast<uint32_t>(slot), &row)) rows.push_back(row);
  }
  return rows;
}

}  // namespace perfschema
