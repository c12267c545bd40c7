// See gtest/gtest.h beside it.
#ifndef PFS_LEVELDB_GMOCK_H
#define PFS_LEVELDB_GMOCK_H

#define MATCHER(name, description) \
  template <class Argument>        \
  bool name(const Argument& arg)

#endif  // PFS_LEVELDB_GMOCK_H
