// matrix_families.cpp: the families of the matrix, one row each. It is compiled twice: the second time with
// PFS_DISABLE, to measure the rest of a probe that is compiled out.
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "matrix.h"
#include "probe_bench.h"

#ifdef PFS_DISABLE
#define FAMILIES FamiliesCompiledOut
#else
#define FAMILIES Families
#endif

namespace bench {
namespace {

// ---- Objects: one for a thread alone, one for each of two, one for both
// ------------------------------------------------------------------

template <typename Object>
Object& Of(Threads threads, int thread) {
  static Object* const objects[] = {new Object, new Object, new Object, new Object};  // never destroyed
  return *objects[threads == Threads::kAlone ? 0 : threads == Threads::kOwn ? 1 + thread : 3];
}

void Need(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "probe_bench: no %s\n", what);
  std::exit(1);
}

pfs_key_t KeyOf(int (*register_one)(const char*, pfs_instrument_info*, int), const char* name) {
  pfs_key_t key = 0;
  pfs_instrument_info info{&key, name, 0, "Of the benchmark."};
  register_one("bench", &info, 1);
  return key;
}

// The object is in the middle of a page of its own: see mutex_bench.cpp.
struct alignas(4096) Mutex {
  char before[1024];
  alignas(64) pthread_mutex_t bare = PTHREAD_MUTEX_INITIALIZER;
  alignas(64) pfs_mutex_t recorded;
  Mutex() { Need(pfs_mutex_init(KeyOf(pfs_register_mutex, "matrix"), &recorded, nullptr) == 0, "mutex"); }
};

struct alignas(4096) Rwlock {
  char before[1024];
  alignas(64) pthread_rwlock_t bare = PTHREAD_RWLOCK_INITIALIZER;
  alignas(64) pfs_rwlock_t recorded;
  Rwlock() { Need(pfs_rwlock_init(KeyOf(pfs_register_rwlock, "matrix"), &recorded, nullptr) == 0, "rwlock"); }
};

struct alignas(4096) Cond {
  char before[1024];
  alignas(64) pthread_cond_t bare = PTHREAD_COND_INITIALIZER;
  alignas(64) pfs_mutex_t mutex = PFS_MUTEX_INITIALIZER;  // not instrumented
  alignas(64) pfs_cond_t recorded;
  Cond() { Need(pfs_cond_init(KeyOf(pfs_register_cond, "matrix"), &recorded, nullptr) == 0, "condition"); }
};
constexpr timespec kPast = {-1, 0};  // has passed: the call does not read the clock

struct File {
  int bare, recorded;
  File() {
    const char* folder = std::getenv("TMPDIR");
    std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/probe_bench.XXXXXX";
    bare = mkstemp(path.data());
    const char text[4096] = "The quick brown fox.";
    Need(bare >= 0 && write(bare, text, sizeof text) == sizeof text, "file to read");
    recorded = pfs_open(KeyOf(pfs_register_file, "matrix"), path.c_str(), O_RDWR);
    Need(recorded >= 0, "second descriptor");
    unlink(path.c_str());
  }
};

struct Sockets {
  int bare[2], recorded[2];
  Sockets() {
    Need(socketpair(AF_UNIX, SOCK_STREAM, 0, bare) == 0 &&
             pfs_socketpair(KeyOf(pfs_register_socket, "matrix"), AF_UNIX, SOCK_STREAM, 0, recorded) == 0,
         "pair of sockets");
  }
};

struct alignas(4096) Store {
  char before[1024];
  alignas(64) std::atomic_flag lock = ATOMIC_FLAG_INIT;
  alignas(64) char row[256] = {};
  pfs_table_t* table;
  pfs_metadata_lock_t* metadata;
  Store() {
    static const char* const indexes[] = {"PRIMARY"};
    static int made = 0;
    const std::string name = "matrix_" + std::to_string(made++);
    table = pfs_table_open(PFS_OBJECT_TABLE, "bench", name.c_str(), nullptr, indexes, 1);
    metadata = pfs_metadata_lock_create(nullptr, PFS_OBJECT_TABLE, "bench", name.c_str(), nullptr, PFS_METADATA_SHARED_READ,
                                        PFS_METADATA_EXPLICIT, PFS_METADATA_PENDING);
#ifndef PFS_DISABLE
    Need(table != nullptr && metadata != nullptr, "table");
#endif
  }
  int Fetch() {
    char copy[sizeof row];
    std::memcpy(copy, row, sizeof copy);
    benchmark::DoNotOptimize(copy);
    benchmark::ClobberMemory();
    return 0;
  }
  int Lock() {
    while (lock.test_and_set(std::memory_order_acquire)) relax_processor();
    return 0;
  }
  void Unlock() { lock.clear(std::memory_order_release); }
};

// Families without an object: stages, transactions, idle time, blocks of memory; and the text of a statement.
struct Nothing {
  pfs_key_t first = 0, second = 0, query = 0, block = 0;
  std::string text;
  bool odd = false;
  Nothing() {
    first = KeyOf(pfs_register_stage, "matrix_first");
    second = KeyOf(pfs_register_stage, "matrix_second");
    query = KeyOf(pfs_register_statement, "matrix");
    block = KeyOf(pfs_register_memory, "matrix");
    static int made = 0;  // each a digest of its own
    text = "SELECT o.id, o.placed, c.name, SUM(l.amount * l.price) FROM orders" + std::to_string(made++) +
           " o JOIN customers c ON c.id = o.customer JOIN lines l ON l.order_id = o.id WHERE o.placed > '2026-01-01' AND c.country IN "
           "('de', 'fr')";
  }
};

// ---- Timers
// --------------------------------------------------------------------------------------------------------------------------------

uint64_t Cycles() { return read_timer(); }

// ---- Rows
// ----------------------------------------------------------------------------------------------------------------------------------

template <typename Object, typename Operation>
Block BlockOf(Operation operation) {
  return [operation](benchmark::State& state, Threads threads) {
    Object& object = Of<Object>(threads, state.thread_index());
    Run(state, static_cast<int>(state.max_iterations) / kWarmUpPart, [&object, operation] { operation(object); });
  };
}

// `bare` is timed; `probe` does the same through pfs. Each passes its result to its undo function, which is not
// timed.
template <typename Object, uint64_t (*kNow)(), typename Bare, typename Undo, typename Probe, typename UndoProbe>
Family Row(Family facts, Bare bare, Undo undo, Probe probe, UndoProbe undo_probe) {
  Of<Object>(Threads::kAlone, 0);  // now: an instrument that is registered later would be on
  facts.bare = BlockOf<Object>([bare, undo](Object& object) { undo(object, bare(object)); });
  facts.floor = [bare, undo](benchmark::State& state, Threads threads) {
    uint64_t sum = 0;
    BlockOf<Object>([bare, undo, &sum](Object& object) {
      const uint64_t start = kNow();
      const auto result = bare(object);
      sum += kNow() - start;
      undo(object, result);
    })(state, threads);
    benchmark::DoNotOptimize(sum);
  };
  facts.probe = BlockOf<Object>([probe, undo_probe](Object& object) { undo_probe(object, probe(object)); });
  return facts;
}

// Operations without an undo function.
template <typename Object, uint64_t (*kNow)(), typename Bare, typename Probe>
Family Row(Family facts, Bare bare, Probe probe) {
  const auto nothing = [](Object&, auto result) { benchmark::DoNotOptimize(result); };
  return Row<Object, kNow>(std::move(facts), bare, nothing, probe, nothing);
}

constexpr int kFast = 40'000, kMiddling = 5'000, kSystem = 2'500;  // operations of a block

Family MemoryRow() {
  Family row = Row<Nothing, Cycles>(
      {"memory", Kind::kMemory, "memory/bench/matrix", kFast, 1, false, {}, {}, {}},
      [](Nothing&) {
        void* block = std::malloc(64);
        benchmark::DoNotOptimize(block);
        std::free(block);
        return 0;
      },
      [](Nothing& keys) {
        void* block = pfs_malloc(keys.block, 64);
        benchmark::DoNotOptimize(block);
        pfs_free(block);
        return 0;
      });
  row.floor = {};  // it is never timed
  return row;
}

// The last stage ends with the block, or else it would count in the next block.
Family StageRow() {
  Family row = Row<Nothing, Cycles>(
      {"stage", Kind::kStages, "stage/bench/matrix%", kMiddling, 1, false, {}, {}, {}}, [](Nothing&) { return 0; },
      [](Nothing& keys) {
        pfs_stage_begin(keys.odd ? keys.first : keys.second);
        keys.odd = !keys.odd;
        return 0;
      });
  row.probe = [stages = row.probe](benchmark::State& state, Threads threads) {
    stages(state, threads);
    pfs_stage_end();
  };
  return row;
}

}  // namespace

std::vector<Family> FAMILIES() {
  return {
      Row<Mutex, Cycles>(
          {"lock", Kind::kWaits, "wait/synch/mutex/bench/matrix", kFast, 1, true, {}, {}, {}},
          [](Mutex& m) { return pthread_mutex_lock(&m.bare); }, [](Mutex& m, int) { pthread_mutex_unlock(&m.bare); },
          [](Mutex& m) { return pfs_mutex_lock(&m.recorded); }, [](Mutex& m, int) { pfs_mutex_unlock(&m.recorded); }),
      Row<Mutex, Cycles>(
          {"trylock", Kind::kWaits, "wait/synch/mutex/bench/matrix", kFast, 1, true, {}, {}, {}},
          [](Mutex& m) { return pthread_mutex_trylock(&m.bare); },
          [](Mutex& m, int failed) {
            if (!failed) pthread_mutex_unlock(&m.bare);
          },
          [](Mutex& m) { return pfs_mutex_trylock(&m.recorded); },
          [](Mutex& m, int failed) {
            if (!failed) pfs_mutex_unlock(&m.recorded);
          }),
      Row<Rwlock, Cycles>(
          {"rdlock", Kind::kWaits, "wait/synch/rwlock/bench/matrix", kFast, 1, true, {}, {}, {}},
          [](Rwlock& rw) { return pthread_rwlock_rdlock(&rw.bare); }, [](Rwlock& rw, int) { pthread_rwlock_unlock(&rw.bare); },
          [](Rwlock& rw) { return pfs_rwlock_rdlock(&rw.recorded); }, [](Rwlock& rw, int) { pfs_rwlock_unlock(&rw.recorded); }),
      Row<Rwlock, Cycles>(
          {"wrlock", Kind::kWaits, "wait/synch/rwlock/bench/matrix", kFast, 1, true, {}, {}, {}},
          [](Rwlock& rw) { return pthread_rwlock_wrlock(&rw.bare); }, [](Rwlock& rw, int) { pthread_rwlock_unlock(&rw.bare); },
          [](Rwlock& rw) { return pfs_rwlock_wrlock(&rw.recorded); }, [](Rwlock& rw, int) { pfs_rwlock_unlock(&rw.recorded); }),
      // The mutex is locked again for each wait, so that two threads can wait: a few nanoseconds in every mode, also
      // in `bare`.
      Row<Cond, Cycles>(
          {"cond", Kind::kWaits, "wait/synch/cond/bench/matrix", kMiddling, 1, true, {}, {}, {}},
          [](Cond& c) {
            pthread_mutex_lock(&c.mutex.mutex);
            return pthread_cond_timedwait(&c.bare, &c.mutex.mutex, &kPast);
          },
          [](Cond& c, int) { pthread_mutex_unlock(&c.mutex.mutex); },
          [](Cond& c) {
            pthread_mutex_lock(&c.mutex.mutex);
            return pfs_cond_timedwait(&c.recorded, &c.mutex, &kPast);
          },
          [](Cond& c, int) { pthread_mutex_unlock(&c.mutex.mutex); }),
      Row<File, Cycles>(
          {"pread", Kind::kWaits, "wait/io/file/bench/matrix", kMiddling, 1, true, {}, {}, {}},
          [](File& file) {
            char buffer[120];
            return pread(file.bare, buffer, sizeof buffer, 0);
          },
          [](File& file) {
            char buffer[120];
            return pfs_pread(file.recorded, buffer, sizeof buffer, 0);
          }),
      Row<File, Cycles>(
          {"pwrite", Kind::kWaits, "wait/io/file/bench/matrix", kSystem, 1, true, {}, {}, {}},
          [](File& file) {
            const char buffer[120] = {};
            return pwrite(file.bare, buffer, sizeof buffer, 0);
          },
          [](File& file) {
            const char buffer[120] = {};
            return pfs_pwrite(file.recorded, buffer, sizeof buffer, 0);
          }),
      // A plain call takes the bytes out again: one event, as the floor times one call.
      Row<Sockets, Cycles>(
          {"send", Kind::kWaits, "wait/io/socket/bench/matrix", kSystem, 1, true, {}, {}, {}},
          [](Sockets& sockets) {
            const char buffer[64] = {};
            return send(sockets.bare[0], buffer, sizeof buffer, 0);
          },
          [](Sockets& sockets, ssize_t) {
            char buffer[64];
            benchmark::DoNotOptimize(recv(sockets.bare[1], buffer, sizeof buffer, 0));
          },
          [](Sockets& sockets) {
            const char buffer[64] = {};
            return pfs_send(sockets.recorded[0], buffer, sizeof buffer, 0);
          },
          [](Sockets& sockets, ssize_t) {
            char buffer[64];
            benchmark::DoNotOptimize(recv(sockets.recorded[1], buffer, sizeof buffer, 0));
          }),
      Row<Store, Cycles>(
          {"table_io", Kind::kWaits, "wait/io/table/sql/handler", kFast, 1, true, {}, {}, {}}, [](Store& s) { return s.Fetch(); },
          [](Store& s) {
            pfs_wait_t wait;
            pfs_table_io_begin(&wait, s.table, PFS_TABLE_FETCH, 0);
            const int result = s.Fetch();
            pfs_table_io_end(&wait, 1);
            return result;
          }),
      Row<Store, Cycles>(
          {"table_lock", Kind::kWaits, "wait/lock/table/sql/handler", kFast, 1, true, {}, {}, {}}, [](Store& s) { return s.Lock(); },
          [](Store& s, int) { s.Unlock(); },
          [](Store& s) {
            pfs_wait_t wait;
            pfs_table_lock_begin(&wait, s.table, PFS_TABLE_WRITE_LOCK);
            const int result = s.Lock();
            pfs_table_lock_end(&wait, result);
            return result;
          },
          [](Store& s, int) { s.Unlock(); }),
      Row<Store, Cycles>(
          {"metadata", Kind::kWaits, "wait/lock/metadata/sql/mdl", kFast, 1, true, {}, {}, {}}, [](Store& s) { return s.Lock(); },
          [](Store& s, int) { s.Unlock(); },
          [](Store& s) {
            pfs_wait_t wait;
            pfs_metadata_wait_begin(&wait, s.metadata);
            const int result = s.Lock();
            pfs_metadata_wait_end(&wait, result);
            return result;
          },
          [](Store& s, int) { s.Unlock(); }),
      Row<Nothing, Cycles>(
          {"idle", Kind::kWaits, "idle", kMiddling, 1, false, {}, {}, {}}, [](Nothing&) { return poll(nullptr, 0, 0); },
          [](Nothing&) {
            pfs_wait_t wait;
            pfs_idle_begin(&wait);
            const int result = poll(nullptr, 0, 0);
            pfs_idle_end(&wait);
            return result;
          }),
      StageRow(),
      Row<Nothing, Cycles>(
          {"statement", Kind::kStatements, "statement/bench/matrix", kMiddling, 1, true, {}, {}, {}}, [](Nothing&) { return 0; },
          [](Nothing& query) {
            pfs_statement_t statement;
            pfs_statement_begin(&statement, query.query);
            pfs_statement_set_text(&statement, query.text.data(), query.text.size());
            pfs_statement_end(&statement);
            return 0;
          }),
      Row<Nothing, Cycles>(
          {"transaction", Kind::kTransactions, "transaction", kMiddling, 1, false, {}, {}, {}}, [](Nothing&) { return 0; },
          [](Nothing&) {
            pfs_transaction_t transaction;
            pfs_transaction_begin(&transaction, PFS_REPEATABLE_READ, 0, 0);
            pfs_transaction_end(&transaction, 1);
            return 0;
          }),
      MemoryRow(),
  };
}

}  // namespace bench
