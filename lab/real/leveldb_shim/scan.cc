// scan FOLDER: "keys N hash H" of all that a database holds, in order. Two databases with the same line hold the same data.
#include <cstdint>
#include <cstdio>
#include <memory>

#include "leveldb/db.h"

int main(int count, char** arguments) {
  leveldb::DB* opened = nullptr;
  const leveldb::Status status = leveldb::DB::Open(leveldb::Options(), count > 1 ? arguments[1] : "", &opened);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
  const std::unique_ptr<leveldb::DB> db(opened);
  uint64_t keys = 0;
  uint64_t hash = 14695981039346656037u;
  const auto add = [&hash](const leveldb::Slice& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 1099511628211u;
    hash = (hash ^ bytes.size()) * 1099511628211u;
  };
  const std::unique_ptr<leveldb::Iterator> row(db->NewIterator(leveldb::ReadOptions()));
  for (row->SeekToFirst(); row->Valid(); row->Next(), ++keys) {
    add(row->key());
    add(row->value());
  }
  std::printf("keys %llu hash %llu\n", static_cast<unsigned long long>(keys), static_cast<unsigned long long>(hash));
  return row->status().ok() ? 0 : 1;
}
