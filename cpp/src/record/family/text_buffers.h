// record/family/text_buffers.h: private buffers of a thread for the texts of its running statements, outside the
// segment.
//
// The memory starts with the serials: for each buffer, the statement whose text is in it. The buffers follow: each
// holds an SQL text and its tokens, with the capacity that the options set. Statements that are not recorded share
// the last buffer. The cache of tokens comes last.
//
// Threads: the owner thread, inside a probe.
#pragma once

#include <algorithm>

#include "record/context/threads.h"
#include "record/engine/texts.h"
#include "record/family/token_cache.h"

namespace perfschema {

inline uint64_t OptionNow(OptionId id) { return g_runtime.header->options[static_cast<uint32_t>(id)]; }
inline uint64_t SqlLimit() { return OptionNow(OptionId::max_sql_text_length); }
inline uint64_t DigestLimit() { return OptionNow(OptionId::max_digest_length); }

inline size_t OffsetOfTokenCache() {
  return (g_runtime.statement_stack + 1) * (sizeof(uint64_t) + TextCapacity(SqlLimit()) + TextCapacity(DigestLimit()));
}
inline size_t BytesOfTextBuffers() { return OffsetOfTokenCache() + sizeof(TokenCache); }

inline uint64_t& BufferOwner(const ThreadState& thread, uint32_t index) {
  return reinterpret_cast<uint64_t*>(thread.texts)[std::min(index, g_runtime.statement_stack)];
}
inline char* SqlBuffer(const ThreadState& thread, uint32_t index) {
  return thread.texts + (g_runtime.statement_stack + 1) * sizeof(uint64_t) +
         std::min(index, g_runtime.statement_stack) * (TextCapacity(SqlLimit()) + TextCapacity(DigestLimit()));
}
inline uint8_t* TokenBuffer(const ThreadState& thread, uint32_t index) {
  return reinterpret_cast<uint8_t*>(SqlBuffer(thread, index)) + TextCapacity(SqlLimit());
}
inline TokenCache& TokenCacheOf(const ThreadState& thread) { return *reinterpret_cast<TokenCache*>(thread.texts + OffsetOfTokenCache()); }

}  // namespace perfschema
