// nested_bench.cpp: stages, statements, transactions, with everything on.
//
//   stage        the change from one stage to the next: one reading of the timer ends the first and starts the second
//   statement    begin, a text of 200 bytes, its digest, the histogram, end
//   transaction  begin and end
//
// Their timer is NANOSECOND, which is the cycle counter in another unit: the floor is two readings of that.
#include <perfschema/pfs.h>

#include <cstdlib>
#include <string_view>

#include "probe_bench.h"

namespace bench {
namespace {

constexpr std::string_view kText =
    "SELECT o.id, o.placed, c.name, SUM(l.amount * l.price) FROM orders o JOIN customers c ON c.id = o.customer JOIN lines l ON l.order_id "
    "= o.id "
    "WHERE o.placed > '2026-01-01' AND c.country IN ('de', 'fr')";
static_assert(kText.size() >= 195 && kText.size() <= 205);

struct Keys {
  pfs_key_t first, second, query;
  Keys() {
    pfs_stage_info_t stages[] = {{&first, "first", 0, nullptr}, {&second, "second", 0, nullptr}};
    pfs_statement_info_t statements[] = {{&query, "query", 0, nullptr}};
    if (pfs_register_stage("bench", stages, 2) != PFS_OK || pfs_register_statement("bench", statements, 1) != PFS_OK || first == 0 ||
        query == 0)
      std::abort();
  }
};
const Keys& TheKeys() {
  static const Keys keys;
  return keys;
}

void TwoReadings(benchmark::State& state) {
  uint64_t sum = 0;
  Run(state, kWarmUp, [&] {
    const uint64_t start = read_timer();
    sum += read_timer() - start;
  });
  benchmark::DoNotOptimize(sum);
}

void Stage(benchmark::State& state) {
  const Keys& keys = TheKeys();
  bool odd = false;
  Run(state, kWarmUp, [&] {
    pfs_stage_begin(odd ? keys.first : keys.second);
    odd = !odd;
  });
  pfs_stage_end();
}

void Statement(benchmark::State& state) {
  const Keys& keys = TheKeys();
  Run(state, kWarmUp, [&] {
    pfs_statement_t statement;
    pfs_statement_begin(&statement, keys.query);
    pfs_statement_set_text(&statement, kText.data(), kText.size());
    pfs_statement_end(&statement);
  });
}

void Transaction(benchmark::State& state) {
  Run(state, kWarmUp, [] {
    pfs_transaction_t transaction;
    pfs_transaction_begin(&transaction, PFS_REPEATABLE_READ, 0, 0);
    pfs_transaction_end(&transaction, 1);
  });
}

}  // namespace

void RegisterNestedBenchmarks() {
  TheKeys();
  const auto add = [](const char* name, void (*run)(benchmark::State&)) {
    benchmark::RegisterBenchmark(name, run)->Iterations(kReadIterations)->UseRealTime()->Setup(SetUp<Recorded::kAll>);
  };
  add("nested/floor", TwoReadings);
  add("stage/all", Stage);
  add("statement/all", Statement);
  add("transaction/all", Transaction);
}

}  // namespace bench
