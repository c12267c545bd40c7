#include "snapshot/threads.h"

#include <cstring>

#include "snapshot/moment.h"
#include "snapshot/slots.h"

namespace perfschema {
namespace {

// Returns the name of a stage in lists of threads, without "stage/component/".
std::string_view StateOf(std::string_view stage) {
  for (int i = 0; i < 2; ++i) stage.remove_prefix(std::min(stage.find('/'), stage.size() - 1) + 1);
  return stage;
}

}  // namespace

bool ThreadAt(const Snapshot& snapshot, uint32_t slot, ThreadRow* row) {
  if (!snapshot.ok()) return false;
  const ShmThread* shm = snapshot.array<ArrayId::kThreads>().at(slot);
  if (shm == nullptr) return false;
  // A slot that changes hands while it is read is read again: its new thread is live, too.
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint64_t thread_id = shm->thread_id.load(kAcquire);  // pairs with MakeThread's last store
    if (thread_id == 0) return false;
    uint64_t name[16], user[4], host[32], db[8] = {}, command[2] = {}, state[8] = {}, connection_type[2] = {}, resource_group[8] = {},
                                          info[128] = {};
    if (!snapshot.TryRead(shm->seq, [&] {
          LoadWords(shm->name, name);
          LoadWords(shm->user_name, user);
          LoadWords(shm->host_name, host);
          const uint32_t its_texts = shm->texts.load(kAcquire);  // pairs with MakeTexts
          const ShmThreadTexts* const texts = its_texts == 0 ? nullptr : snapshot.array<ArrayId::kThreadTexts>().at(its_texts);
          if (texts == nullptr) return;
          LoadWords(texts->db, db);
          LoadWords(texts->command, command);
          LoadWords(texts->state, state);
          LoadWords(texts->connection_type, connection_type);
          LoadWords(texts->resource_group, resource_group);
          LoadWords(texts->info, info);
        })) {
      snapshot.CountSkipped();
      return false;
    }
    const uint64_t os_id = shm->os_id.load(kAcquire);
    const uint64_t parent = shm->parent_thread_id.load(kAcquire);
    const uint64_t processlist_id = shm->processlist_id.load(kAcquire);
    const uint64_t start_seconds = shm->start_seconds.load(kAcquire);
    *row = {};
    row->slot = slot;
    row->thread_id = thread_id;
    row->flags = shm->flags.load(kAcquire);
    row->cells = shm->cells.load(kAcquire);
    row->peer_port = shm->peer_port.load(kAcquire);
    const ClassRow* stage = snapshot.ClassAt(shm->stage.load(kAcquire));
    if (shm->thread_id.load(kRelaxed) != thread_id) continue;
    uint64_t numbers[kThreadNumbers];
    LoadWords(reinterpret_cast<const ThreadWordArray&>(shm->numbers), numbers);
    std::memcpy(static_cast<ThreadNumbers<uint64_t>*>(row), numbers, sizeof numbers);
    const auto number = [](uint64_t value) { return value == 0 ? std::optional<uint64_t>() : value; };
    const auto keep = [&](const auto& words, auto* text) {
      if (const std::string_view kept = snapshot.KeepWords(words); !kept.empty()) text->emplace(kept);
    };
    row->os_id = number(os_id);
    row->parent_thread_id = number(parent);
    if (row->is_foreground()) row->processlist_id = number(processlist_id);
    const auto now = ReadMoment::NowSeconds(snapshot.header());
    if (start_seconds != 0) row->seconds = static_cast<int64_t>(start_seconds < now ? now - start_seconds : 0);
    row->name = snapshot.KeepWords(name);
    keep(user, &row->user);
    keep(host, &row->host);
    keep(db, &row->db);
    keep(command, &row->command);
    keep(state, &row->state);
    if (stage != nullptr && stage->kind() == Kind::kStage) row->state = StateOf(stage->name.view());
    keep(connection_type, &row->connection_type);
    keep(resource_group, &row->resource_group);
    keep(info, &row->info);
    return true;
  }
  return false;
}

std::vector<ThreadRow> Threads(const Snapshot& snapshot) {
  std::vector<ThreadRow> rows;
  ThreadRow row{};
  for (uint64_t slot = 1; slot < snapshot.array<ArrayId::kThreads>().used(); ++slot) {
    if (ThreadAt(snapshot, static_cast<uint32_t>(slot), &row)) rows.push_back(row);
  }
  return rows;
}

std::unordered_map<uint64_t, Text<128>> ThreadNames(const Snapshot& snapshot) {
  std::unordered_map<uint64_t, Text<128>> names;
  for (const ThreadRow& row : Threads(snapshot)) names[row.thread_id] = row.name;
  return names;
}

}  // namespace perfschema
