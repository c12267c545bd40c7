// stage, statement, transaction: blocks of C++, with and without PFS_DISABLE.
#include <cstdio>
#include <perfschema/pfs.hpp>
#include <stdexcept>

int main() {
  const pfs_key_t parsing = perfschema::stage_key("class/parsing");
  {
    perfschema::transaction kept{PFS_SERIALIZABLE};
    perfschema::statement query{"class/query", "SELECT name FROM people WHERE id = 7", "town"};
    {
      perfschema::stage stage{parsing};
      perfschema::stage next{"class/loading"};
      next.estimated(10);
      next.advance(3);
    }
    query.add(PFS_ROWS_SENT, 5);
    kept.savepoint();
    kept.commit();
    kept.commit();
  }
  { perfschema::transaction left{PFS_READ_COMMITTED, true}; }
  try {
    perfschema::statement failing{"class/failing", "DROP EVERYTHING"};
    throw std::runtime_error("no");
  } catch (const std::runtime_error&) {
  }
  {
    perfschema::statement said{"class/said"};
    said.error(1146, "42S02", "no such table");
    if (!said.traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")) return 1;
  }
  std::printf("statement_class: ok\n");
  return 0;
}
