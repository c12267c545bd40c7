// db_bench includes a header of leveldb's tests for its random data, and that one the test framework: this much of it is enough to compile.
#ifndef PFS_LEVELDB_GTEST_H
#define PFS_LEVELDB_GTEST_H

namespace testing {
struct UnitTest {
  static UnitTest* GetInstance() { return nullptr; }
  int random_seed() const { return 0; }
};
}  // namespace testing

#endif  // PFS_LEVELDB_GTEST_H
