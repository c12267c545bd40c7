// perfschema/server.hpp: the tables and metadata locks of a server of databases, recorded. Unstable, as server.h says.
//
//     perfschema::table orders{"shop", "orders", {"PRIMARY", "by_name"}};
//     {
//       perfschema::table_lock wait{orders, PFS_TABLE_WRITE_LOCK};
//       mutex.lock();
//       wait.acquired();
//     }
//     {
//       perfschema::table_io wait{orders, PFS_TABLE_FETCH, 1};
//       wait.rows(find_by_name(name));
//     }
//     orders.unlock();
//
// table.h and metadata.h describe the rows of the tables.
//
// Threads: an object is for one thread at a time, but table_io and table_lock of many threads may use one table at once.
#ifndef PERFSCHEMA_SERVER_HPP
#define PERFSCHEMA_SERVER_HPP

#include <exception>
#include <initializer_list>

#include "perfschema/pfs.hpp"
#include "perfschema/server.h"

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

// ---- Tables --------------------------------------------------------------------------------------------------------------------------

// A handle of a table. The destructor closes it; the table stays known until it is dropped.
class table {
 public:
  table() noexcept = default;
  // `schema` may be empty; `indexes` are numbered from 0. `identity`: OBJECT_INSTANCE_BEGIN; nullptr = an address of pfs.
  table(const std::string& schema, const std::string& name, std::initializer_list<const char*> indexes = {}, const void* identity = nullptr,
        pfs_object_type type = PFS_OBJECT_TABLE)
      : table_(pfs_table_open(type, schema.c_str(), name.c_str(), identity, indexes.begin(), static_cast<int>(indexes.size()))) {}
  ~table() { close(); }
  table(table&& other) noexcept : table_(std::exchange(other.table_, nullptr)) {}
  table& operator=(table&& other) noexcept {
    std::swap(table_, other.table_);
    return *this;
  }

  // Give the handle to the calling thread, or mark it as cached for later use.
  void bind() noexcept { pfs_table_bind(table_); }
  void unbind() noexcept { pfs_table_unbind(table_); }
  // Marks the locks that the handle shows as released.
  void unlock() noexcept { pfs_table_unlock(table_); }
  void unlock_internal() noexcept { pfs_table_unlock_internal(table_); }
  void unlock_external() noexcept { pfs_table_unlock_external(table_); }
  void close() noexcept { pfs_table_close(std::exchange(table_, nullptr)); }
  // Drops the table of this name.
  static void drop(const std::string& schema, const std::string& name, pfs_object_type type = PFS_OBJECT_TABLE) {
    pfs_table_drop(type, schema.c_str(), name.c_str());
  }
  pfs_table_t* get() const noexcept { return table_; }  // nullptr = not instrumented

 private:
  pfs_table_t* table_ = nullptr;
};

// A wait for rows, during the lifetime of the object: for one row, unless rows() says otherwise; for none, if an exception ends it
// before that.
class [[nodiscard]] table_io {
 public:
  explicit table_io(const table& of, pfs_table_io operation, int index = PFS_NO_INDEX, PFS_CALLER_) {
    wait_.instance = nullptr;
    PFS_CALL_(table_io_begin, &wait_, of.get(), operation, index);
  }
  ~table_io() { pfs_table_io_end(&wait_, is_set_ ? rows_ : std::uncaught_exceptions() > exceptions_ ? 0 : 1); }
  table_io(const table_io&) = delete;
  table_io& operator=(const table_io&) = delete;

  void rows(uint64_t rows) noexcept {
    rows_ = rows;
    is_set_ = true;
  }

 private:
  pfs_wait_t wait_;
  uint64_t rows_ = 0;
  bool is_set_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

// A wait for a lock on a table, from construction to acquired() or failed(). If it is destroyed without either (an exception), it
// failed.
class [[nodiscard]] table_lock {
 public:
  explicit table_lock(const table& of, pfs_table_lock kind, PFS_CALLER_) {
    wait_.instance = nullptr;
    PFS_CALL_(table_lock_begin, &wait_, of.get(), kind);
  }
  ~table_lock() { failed(); }
  table_lock(const table_lock&) = delete;
  table_lock& operator=(const table_lock&) = delete;

  // The caller calls it when it holds the lock: the handle shows it until unlock().
  void acquired() noexcept { pfs_table_lock_end(&wait_, 0); }
  void failed(int rc = EBUSY) noexcept { pfs_table_lock_end(&wait_, rc); }

 private:
  pfs_wait_t wait_;
};

// ---- Metadata locks ------------------------------------------------------------------------------------------------------------------

// A request for a lock on a name, and then the lock, until the object is destroyed: a row of metadata_locks.
class metadata_lock {
 public:
  metadata_lock() noexcept = default;
  // Empty names and a column of nullptr show as NULL.
  metadata_lock(pfs_object_type object, const std::string& schema, const std::string& name, pfs_metadata_type type,
                pfs_metadata_duration duration = PFS_METADATA_TRANSACTION, pfs_metadata_status status = PFS_METADATA_PENDING,
                const char* column = nullptr, const void* identity = nullptr, PFS_CALLER_)
      : lock_(PFS_CALL_(metadata_lock_create, identity, object, schema.c_str(), name.c_str(), column, type, duration, status)) {}
  ~metadata_lock() { release(); }
  metadata_lock(metadata_lock&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
  metadata_lock& operator=(metadata_lock&& other) noexcept {
    std::swap(lock_, other.lock_);
    return *this;
  }

  void granted() noexcept { status(PFS_METADATA_GRANTED); }
  void status(pfs_metadata_status status) noexcept { pfs_metadata_lock_set_status(lock_, status); }
  void duration(pfs_metadata_duration duration) noexcept { pfs_metadata_lock_set_duration(lock_, duration); }
  void type(pfs_metadata_type type) noexcept { pfs_metadata_lock_set_type(lock_, type); }
  void release() noexcept { pfs_metadata_lock_destroy(std::exchange(lock_, nullptr)); }
  pfs_metadata_lock_t* get() const noexcept { return lock_; }  // nullptr = no row

 private:
  pfs_metadata_lock_t* lock_ = nullptr;
};

// A wait for such a lock, during the lifetime of the object.
class [[nodiscard]] metadata_wait {
 public:
  explicit metadata_wait(const metadata_lock& lock, PFS_CALLER_) {
    wait_.instance = nullptr;
    PFS_CALL_(metadata_wait_begin, &wait_, lock.get());
  }
  ~metadata_wait() { pfs_metadata_wait_end(&wait_, 0); }
  metadata_wait(const metadata_wait&) = delete;
  metadata_wait& operator=(const metadata_wait&) = delete;

 private:
  pfs_wait_t wait_;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_SERVER_HPP
