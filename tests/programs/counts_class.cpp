// error_number, status_variable: with and without PFS_DISABLE.
#include <cstdio>
#include <perfschema/pfs.hpp>
#include <thread>

int main() {
  const perfschema::error_number duplicate{1062, "ER_DUP_ENTRY", "23000"};
  const perfschema::error_number named{"shop::OutOfStock"};
  duplicate.raised();
  duplicate.raised();
  duplicate.handled();
  named.raised();
  bool is_refused = false;
  try {
    const perfschema::error_number other{1062, "ER_OTHER"};
  } catch (const perfschema::error& error) {
    is_refused = error.code() == PFS_E_EXISTS;
  }
  try {
    const perfschema::status_variable bad{"Performance_schema_mine"};
  } catch (const perfschema::error& error) {
    is_refused = is_refused && error.code() == PFS_E_INVALID_ARGUMENT;
  }
#ifdef PFS_DISABLE
  is_refused = !is_refused;
#endif
  const perfschema::status_variable done{"Counts_done", "What is done."}, open{"Counts_open"};
  {
    const perfschema::counted one{open};
    std::thread([&] {
      done += 41;
      --open;
    }).join();
  }
  ++done;
  done -= 2;
  std::printf("counts_class: %s\n", is_refused ? "ok" : "not refused");
  return 0;
}
