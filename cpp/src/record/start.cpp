// record/start.cpp: starts pfs in this process, or lets this process change another one's segment; ends it at exit.
#include "record/start.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/private_memory.h"
#include "base/settings.h"
#include "record/context/actors.h"
#include "record/context/principals.h"
#include "record/context/thread_time.h"
#include "record/context/threads.h"
#include "record/declared/facts.h"
#include "record/engine/barrier.h"
#include "record/engine/cold_lock.h"
#include "record/engine/own_stack.h"
#include "record/engine/refusals.h"
#include "record/engine/sources.h"
#include "record/family/digests.h"
#include "record/family/errors.h"
#include "record/family/files.h"
#include "record/family/program_tables.h"
#include "record/probe/chunk_pool.h"
#include "record/probe/trace.h"
#include "shm/place.h"

extern "C" const char __bss_start[] PFS_HIDDEN, _end[] PFS_HIDDEN;  // of this object, by the linker

namespace perfschema {

namespace {

// Guarded by the cold lock until pfs has started. No constructor fills them: most of the start of a small program would be that.
constinit Options options{Options::Unset()};
constinit char status_reason[512] = "";

template <typename Byte>
void CopyText(Byte* to, size_t size, std::string_view text) {
  std::fill_n(to, size, Byte{0});
  std::copy_n(text.begin(), std::min(text.size(), size - 1), to);
}

void NoteReason(std::string_view reason) { CopyText(status_reason, sizeof status_reason, reason); }

void CachePointers() {
  Runtime& rt = g_runtime;
  Segment& segment = rt.segment;
  rt.header = segment.header();
  rt.classes = segment.element<ShmClass>(ArrayId::kClasses, 0);
  rt.threads = segment.element<ShmThread>(ArrayId::kThreads, 0);
  rt.thread_texts = segment.element<ShmThreadTexts>(ArrayId::kThreadTexts, 0);
  rt.sampling_interval = static_cast<uint32_t>(StartOptionsLocked().Get(OptionId::sampling_interval));
  rt.thread_cells = segment.element<ShmCell>(ArrayId::kThreadCells, 0);
  rt.cells = segment.element<ShmCell>(ArrayId::kCells, 0);
  rt.instances = segment.element<ShmInstance>(ArrayId::kInstances, 0);
  rt.instance_lists = segment.element<ShmInstanceList>(ArrayId::kInstanceLists, 0);
  rt.holds = segment.element<ShmHold>(ArrayId::kHolds, 0);
  rt.statement_rests = segment.element<ShmStatementRest>(ArrayId::kStatementRests, 0);
  rt.histogram_blocks = segment.element<ShmHistogramBlock>(ArrayId::kHistogramBlocks, 0);
  rt.digest_texts = segment.element<ShmDigestText>(ArrayId::kDigestTexts, 0);
  rt.free_lists = segment.element<ShmFreeLists>(ArrayId::kFreeLists, 0);
  rt.files = segment.element<ShmFile>(ArrayId::kFiles, 0);
  rt.tables = segment.element<ShmTable>(ArrayId::kTables, 0);
  rt.indexes = segment.element<ShmIndex>(ArrayId::kIndexes, 0);
  rt.table_handles = segment.element<ShmTableHandle>(ArrayId::kTableHandles, 0);
  rt.metadata_locks = segment.element<ShmMetadataLock>(ArrayId::kMetadataLocks, 0);
  rt.global_cells = segment.element<ShmCell>(ArrayId::kGlobalCells, 0);
  for (uint32_t i = 0; i < kEventKinds; ++i) {
    const auto history_size = static_cast<uint64_t>(options.Get(kPools[i].history_size));
    rt.pools[i] = {segment.element<ShmChunk>(kChunksOf[i], 0), segment.element<char>(kRecordsOf[i], 0), rt.header->record_bytes[i],
                   segment.array(kRecordsOf[i]).stride, ChunksHeldByThread(static_cast<Kind>(i), history_size)};
  }
  rt.statement_stack = static_cast<uint32_t>(options.Get(OptionId::max_statement_stack));
  const auto sql_limit = static_cast<uint32_t>(options.Get(OptionId::max_sql_text_length));
  const auto digest_limit = static_cast<uint32_t>(options.Get(OptionId::max_digest_length));
  const auto tokens = static_cast<uint32_t>(TextCapacity(sql_limit));
  rt.text_sizes = {sql_limit,
                   digest_limit,
                   static_cast<uint32_t>((rt.statement_stack + 1) * sizeof(uint64_t)),
                   tokens,
                   tokens + static_cast<uint32_t>(TextCapacity(digest_limit)),
                   static_cast<uint32_t>(rt.header->long_text_bytes)};
  rt.cells_per_thread = segment.array(ArrayId::kThreadCells).capacity / segment.array(ArrayId::kThreads).capacity;
}

// Applies PFS_OPTIONS. A bad entry must not stop the program: the good entries apply, and the status reports the bad one.
void ParseEnvironment(Options* to) {
  const char* const environment = Setting("PFS_OPTIONS");
  if (environment == nullptr) return;
  const Status bad = to->Parse(environment);
  if (bad.ok()) return;
  const std::string reason = "PFS_OPTIONS: " + bad.message();
  NoteReason(reason);
  if (to->Get(OptionId::print_bad_options) != 0) ReportRefusal(reason);
}

void StartClocks(ShmHeader* header) {
  const char* const told = Setting("PFS_CYCLE_RATE");
  const std::string_view boot(reinterpret_cast<const char*>(header->boot_id),
                              strnlen(reinterpret_cast<const char*>(header->boot_id), sizeof header->boot_id));
  const uint64_t rate = told != nullptr ? KnownCycleRate(told, boot) : 0;
  const std::string why_not = options.Get(OptionId::cycle_timer) == 0 ? "option performance_schema_cycle_timer is OFF"
                              : rate != 0                             ? std::string()
                                                                      : WhyNoCycleCounter();
  const bool use_cycle = why_not.empty();
  StartTimers(use_cycle, header->timers, rate);
  for (int i = 0; i < kTimerCount; ++i) g_runtime.picos_per_tick[i] = header->timers[i].multiplier;
  if (!use_cycle) CopyText(header->timer_reason, sizeof header->timer_reason, "CYCLE is not used: " + why_not);
  header->epoch_unix_micros = WallClockMicros() - ReadSlowTimer(TimerId::kMicrosecond);  // the epoch is some milliseconds ago
  for (uint32_t i = 0; i < kTimedClassCount; ++i) {
    const bool is_wait = i == static_cast<uint32_t>(TimedClass::kWait);
    const TimerId timer = is_wait && use_cycle ? TimerId::kCycle : TimerId::kNanosecond;
    header->timer_of[i].store(static_cast<uint32_t>(timer) + 1, kRelaxed);
  }
}

void StartConsumers(ShmHeader* header) {
  for (uint32_t i = 0; i < kConsumerCount; ++i) header->consumers[i].store(kConsumers[i].enabled ? 1 : 0, kRelaxed);
  for (uint32_t i = 0; i < options.preset_count; ++i) {
    const Preset& preset = options.presets[i];
    if (!preset.is_consumer) continue;
    header->consumers[static_cast<uint32_t>(FindConsumer(preset.pattern))].store(preset.enabled ? 1 : 0, kRelaxed);
  }
}

// Removes the file, under the cold lock. It runs by atexit() and not as a destructor of the library, which would come
// after that of g_runtime: the path is gone then.
void RemoveAtExit() {
  if (!g_runtime.on || g_runtime.header->pid != static_cast<uint64_t>(getpid())) return;
  ReadTimesAtEnd();
  if (!KeepsSegment()) g_runtime.segment.Remove();
}

// Leaves the zeros of this object out of core dumps. They are 12 MB of tables, of which a program stores to a few pages.
void LeaveZerosOutOfCores() {
  constexpr uintptr_t kLargestPage = 65536;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(__bss_start) + kLargestPage - 1) & -kLargestPage;
  LeaveOutOfCores(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(_end) - begin);
}

// Returns the bytes of a processor's second-level cache; 0 = unknown.
uint64_t SecondLevelCacheBytes() {
#if defined(_SC_LEVEL2_CACHE_SIZE)  // musl has none; glibc knows it on x86 only
  if (const long known = sysconf(_SC_LEVEL2_CACHE_SIZE); known > 0) return static_cast<uint64_t>(known);
#endif
  char kib[32];
  return ReadSmallFile("/sys/devices/system/cpu/cpu0/cache/index2/size", kib, sizeof kib) ? std::strtoull(kib, nullptr, 10) << 10 : 0;
}

void StartNow() {
  if (constexpr auto kRows = static_cast<uint32_t>(OptionId::events_waits_history_long_size); options.values[kRows] == -1) {
    options.values[kRows] = WaitRowsFor(SecondLevelCacheBytes());
    options.is_set[kRows] = false;
  }
  if (options.Get(OptionId::performance_schema) == 0) {
    NoteReason("performance_schema is OFF");
    return;
  }
  std::string reason;
  const bool is_made = g_runtime.segment.Create(options, &reason).ok();
  if (g_runtime.segment.path()[0] == 0 && !reason.empty()) NoteNoSegment(reason.c_str());
  if (!is_made) {
    NoteReason(reason);
    return;
  }
  if (ChosenDirectoryWasRefused() && options.Get(OptionId::print_bad_options) != 0) ReportRefusal("PFS_DIR: " + reason);
  if (status_reason[0] == 0) NoteReason(reason);
  CachePointers();
  ShmHeader* header = g_runtime.header;
  CopyText(header->status_reason, sizeof header->status_reason, status_reason);
  if (g_is_alone_in_object) LeaveZerosOutOfCores();
  StartBarriers();
  StartClocks(header);
  NoteLoading();
  StartConsumers(header);
  if (!HearOfForks() || !StartChunkPools() || !StartThreads() || !StartPrincipals() || !StartFiles() || !StartTables() || !StartFacts() ||
      !StartSources() || !StartDigests() || !StartSetup() || !StartErrors()) {
    g_runtime.segment.Remove();
    NoteReason("no memory for the tables of this process");
    return;
  }
  StartActors();
  g_runtime.segment.Finish();
  __atomic_store_n(&g_runtime.on, true, __ATOMIC_RELEASE);
  std::atexit(RemoveAtExit);
}

void Start() {
  try {
    StartNow();
  } catch (const std::bad_alloc&) {  // a text of a reason, for example: the program goes on without pfs
    g_runtime.segment.Remove();
    NoteReason("");
  }
  g_runtime.phase.store(Phase::kStarted, kRelease);  // last: threads that come meanwhile wait for the lock, and none sees pfs as off
}

}  // namespace

void SetStatusReason(std::string_view reason) {
  CopyText(g_runtime.header->status_reason, sizeof g_runtime.header->status_reason, reason);
  NoteReason(reason);
}

Status InitRuntime(std::string_view text) {
  ColdLock lock;
  if (!lock) return Status(Code::kState, "pfs cannot be started from a signal handler");
  if (g_runtime.phase.load(kAcquire) != Phase::kNew) {
    return Status(Code::kState, "pfs has started already: options are fixed before the first use; set PFS_OPTIONS or call this earlier");
  }
  Options wanted;
  ParseEnvironment(&wanted);
  if (Status bad = wanted.Parse(text); !bad.ok()) {
    NoteReason("");
    return bad;
  }
  options = wanted;
  Start();
  return {};
}

Status AdoptRuntime(const std::string& path) {
  if (g_runtime.phase.load(kAcquire) != Phase::kNew)
    return Status(Code::kState, "pfs has started in this process: another one's segment can be adopted in a fresh process only");
  int descriptor = -1;
  options.SetInitial();
  if (Status bad = g_runtime.segment.Adopt(path, &options, &descriptor); !bad.ok()) return bad;
  CachePointers();
  for (int i = 0; i < kTimerCount; ++i) g_runtime.picos_per_tick[i] = g_runtime.header->timers[i].multiplier;
  if (!StartPrincipals() || !StartFacts() || !StartDigests() || !AdoptSetup()) return Status(Code::kFull, "no memory for private tables");
  t_locals.ended = true;  // this process records no events
  BecomeOutsider(descriptor);
  __atomic_store_n(&g_runtime.on, true, __ATOMIC_RELEASE);
  g_runtime.phase.store(Phase::kStarted, kRelease);
  return {};
}

bool EnsureStarted() {
  if (__builtin_expect(g_runtime.phase.load(kAcquire) == Phase::kStarted, 1)) return __atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE);
  const int error = errno;
  {
    ColdLock lock;  // lets a forked child begin
    if (lock && g_runtime.phase.load(kAcquire) == Phase::kNew) {
      OnOwnStack([] {
        options.SetInitial();
        ParseEnvironment(&options);
        Start();
      });
    }
  }
  TraceMayBegin();  // trace_enabled
  errno = error;
  return !IsStillForked() && __atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE);
}

const Options& StartOptions() {
  (void)EnsureStarted();
  return options;
}

const Options& StartOptionsLocked() { return options; }

std::string StatusReason() {
  (void)EnsureStarted();
  ColdLock lock;
  return status_reason;
}

}  // namespace perfschema
