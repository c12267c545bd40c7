// run/protocols/prepared_texts.cpp: see prepared_texts.h.
#include "run/protocols/prepared_texts.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace perfschema::run {

PreparedTexts::Entry* PreparedTexts::Find(const void* handle, const char* name) {
  for (size_t i = 0; i < std::min(next_, kMost); ++i) {
    if (entries_[i].handle == handle && std::strncmp(entries_[i].name, name, sizeof entries_[i].name - 1) == 0) return &entries_[i];
  }
  return nullptr;
}

void PreparedTexts::Keep(const void* handle, const char* name, const char* text, size_t bytes) {
  if (handle == nullptr || name == nullptr || text == nullptr) return;
  char* const copy = static_cast<char*>(std::malloc(bytes + 1));
  if (copy == nullptr) return;
  std::memcpy(copy, text, bytes);
  const SmallLock::Guard guard(lock_);
  if (entries_ == nullptr) entries_ = static_cast<Entry*>(std::calloc(kMost, sizeof(Entry)));
  Entry* entry = Find(handle, name);
  if (entry == nullptr && entries_ != nullptr) entry = &entries_[next_++ % kMost];
  if (entry == nullptr) {
    std::free(copy);
    return;
  }
  std::free(entry->text);
  *entry = {handle, {}, copy, bytes};
  std::strncpy(entry->name, name, sizeof entry->name - 1);
}

void PreparedTexts::Keep(const void* handle, const char* name, const char* text) {
  if (text != nullptr) Keep(handle, name, text, std::strlen(text));
}

void PreparedTexts::SetTextOf(pfs_statement_t* statement, const void* handle, const char* name) {
  const SmallLock::Guard guard(lock_);
  const Entry* const entry = Find(handle, name);
  if (entry != nullptr && entry->text != nullptr) pfs_statement_set_text(statement, entry->text, entry->bytes);
}

void PreparedTexts::Forget(const void* handle) {
  const SmallLock::Guard guard(lock_);
  for (size_t i = 0; i < std::min(next_, kMost); ++i) {
    if (entries_[i].handle != handle) continue;
    std::free(entries_[i].text);
    entries_[i] = {};
  }
}

}  // namespace perfschema::run
