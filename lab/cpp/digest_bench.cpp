// digest_bench.cpp: the cost of a statement's digest, per byte of its text, compared with memcpy of the same text.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/digest.h"

namespace {

std::string Repeated(std::string_view head, std::string_view part, int times, std::string_view tail) {
  std::string text(head);
  for (int i = 0; i < times; ++i) text += part;
  return text += tail;
}

struct Statement {
  const char* name;
  std::string text;
};
const std::vector<Statement>& Statements() {
  static const std::vector<Statement> statements = {
      {"200_bytes",
       "SELECT o.id, o.created_at, c.name, SUM(i.price * i.quantity) AS total FROM orders o JOIN customers c ON c.id = o.customer_id "
       "WHERE o.status = 'shipped' AND o.id > 1234567 GROUP BY o.id LIMIT 100"},
      {"short", "SELECT * FROM t WHERE id = 42"},
      {"lower_case",
       Repeated("select ", "coalesce(max(a.first_column), b.second_column) as x, ", 20, "1 from a join b using (id) where x is null")},
      {"names", Repeated("SELECT ", "some_table.some_column, ", 40, "x FROM some_table")},
      {"in_list", Repeated("SELECT a FROM t WHERE id IN (", "123456, ", 1000, "1)")},
      {"rows", Repeated("INSERT INTO t (a, b, c) VALUES ", "(1234, 'some text', NULL), ", 1000, "(1, 'x', 2)")},
      {"long_string", Repeated("INSERT INTO t VALUES ('", "All work and no play makes Jack a dull boy. ", 1000, "')")},
      {"comment", Repeated("SELECT /*", " words of a comment ", 1000, "*/ 1")},
      {"blanks", Repeated("SELECT", "\n        ", 1000, "1")},
  };
  return statements;
}

void Tokens(benchmark::State& state, const std::string& text) {
  uint8_t tokens[1024];
  for (auto _ : state) {
    benchmark::DoNotOptimize(perfschema::DigestTokens(text, tokens));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

void Copy(benchmark::State& state, const std::string& text) {
  std::vector<char> copy(text.size());
  for (auto _ : state) {
    std::memcpy(copy.data(), text.data(), text.size());
    benchmark::DoNotOptimize(copy.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

// Measures a function of the tokens of the first statement.
template <typename Function>
void OfTokens(benchmark::State& state, Function function) {
  uint8_t buffer[1024];
  const std::span<const uint8_t> tokens(buffer, perfschema::DigestTokens(Statements().front().text, buffer));
  for (auto _ : state) {
    function(tokens);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * tokens.size()));
}

}  // namespace

int main(int argc, char** argv) {
  for (const Statement& statement : Statements()) {
    benchmark::RegisterBenchmark((std::string("tokens/") + statement.name).c_str(), Tokens, statement.text);
    benchmark::RegisterBenchmark((std::string("memcpy/") + statement.name).c_str(), Copy, statement.text);
  }
  using Stream = std::span<const uint8_t>;
  const auto key = [](Stream tokens) { benchmark::DoNotOptimize(perfschema::DigestKey(tokens)); };
  const auto text = [](Stream tokens) {
    char out[4096];
    benchmark::DoNotOptimize(perfschema::DigestText(tokens, out));
  };
  const auto hash = [](Stream tokens) {
    char out[64];
    perfschema::DigestHash(tokens, out);
    benchmark::DoNotOptimize(out);
  };
  benchmark::RegisterBenchmark("key/200_bytes", OfTokens<decltype(key)>, key);
  benchmark::RegisterBenchmark("text/200_bytes", OfTokens<decltype(text)>, text);
  benchmark::RegisterBenchmark("sha256/200_bytes", OfTokens<decltype(hash)>, hash);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
