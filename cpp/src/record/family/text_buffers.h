// record/family/text_buffers.h: private buffers of a thread for the texts of its running statements, outside the
// segment.
//
// The memory starts with the serials: for each buffer, the statement whose text is in it. The buffers follow: each
// holds an SQL text and its tokens, with the capacity that the options set. Statements that are not recorded share
// the last buffer.
//
// A task has buffers of its own. The cache of tokens is the thread's: it lies behind the thread's state, in memory that began as zeros.
//
// Threads: the owner thread, inside a probe.
#pragma once

#include <algorithm>

#include "record/context/threads.h"
#include "record/engine/texts.h"
#include "record/family/token_cache.h"

namespace perfschema {

inline size_t BytesOfTextBuffers() {
  return g_runtime.text_sizes.first + (g_runtime.statement_stack + 1) * size_t{g_runtime.text_sizes.buffer};
}

inline uint64_t& BufferOwner(const ThreadState& thread, uint32_t index) {
  return reinterpret_cast<uint64_t*>(thread.texts)[std::min(index, g_runtime.statement_stack)];
}
inline char* SqlBuffer(const ThreadState& thread, uint32_t index) {
  return thread.texts + g_runtime.text_sizes.first + std::min(index, g_runtime.statement_stack) * size_t{g_runtime.text_sizes.buffer};
}
inline uint8_t* TokensBehind(char* sql_buffer) { return reinterpret_cast<uint8_t*>(sql_buffer) + g_runtime.text_sizes.tokens; }
inline uint8_t* TokenBuffer(const ThreadState& thread, uint32_t index) { return TokensBehind(SqlBuffer(thread, index)); }

constexpr size_t kTokenCacheOffset = sizeof(ThreadState);  // from the state on: NewState
static_assert(alignof(TokenCache) <= alignof(ThreadState));
inline TokenCache& TokenCacheOf(ThreadState& thread) {
  return *reinterpret_cast<TokenCache*>(reinterpret_cast<char*>(&thread) + kTokenCacheOffset);
}

}  // namespace perfschema
