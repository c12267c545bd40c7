// perfschema/counts.hpp: errors by number, status variables, idle time. A part of pfs.hpp, which the program includes.
//
//     const perfschema::error_number duplicate{1062, "ER_DUP_ENTRY", "23000"};
//     duplicate.raised();
//     perfschema::error_number{"shop::OutOfStock"}.raised();     an error that has no number
//
//     perfschema::status_variable open{"Requests_open", "Requests that wait for an answer."};
//     ++open;
//     perfschema::counted answered_while{open};                  one more until the end of the block
//
// error.h, status.h and idle.h describe the rows of the tables.
//
// Threads: any thread may use any of these objects; it counts for itself.
#ifndef PERFSCHEMA_COUNTS_HPP
#define PERFSCHEMA_COUNTS_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

#include <string>

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

// A registered error. Throws perfschema::error if the name or SQLSTATE is bad, or if the number has another name.
class error_number {
 public:
  error_number(int32_t number, const std::string& name, const char* sqlstate = nullptr, uint32_t flags = 0) : number_(number) {
    detail::check_pfs(pfs_register_error(number, name.c_str(), sqlstate, flags));
  }
  // Registers by name; the number is computed from the name.
  explicit error_number(const std::string& name) : number_(pfs_error_number(name.c_str())) {}

  int32_t value() const noexcept { return number_; }
  void raised() const noexcept { pfs_error_raised(number_); }
  void handled() const noexcept { pfs_error_handled(number_); }

 private:
  int32_t number_;
};

// A status variable; operators change the calling thread's value. Throws perfschema::error if the name is bad.
class status_variable {
 public:
  explicit status_variable(const std::string& name, const char* documentation = nullptr) {
    detail::check_pfs(pfs_register_status(name.c_str(), documentation, &key_));
  }

  pfs_key_t key() const noexcept { return key_; }  // 0: it is not counted
  const status_variable& operator+=(int64_t n) const noexcept {
    pfs_status_add(key_, n);
    return *this;
  }
  const status_variable& operator-=(int64_t n) const noexcept { return *this += -n; }
  const status_variable& operator++() const noexcept { return *this += 1; }
  const status_variable& operator--() const noexcept { return *this += -1; }

 private:
  pfs_key_t key_ = 0;
};

// Adds one to a status variable during the lifetime of the object.
class [[nodiscard]] counted {
 public:
  explicit counted(const status_variable& variable) noexcept : key_(variable.key()) { pfs_status_add(key_, 1); }
  ~counted() { pfs_status_add(key_, -1); }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;

 private:
  pfs_key_t key_;
};

// ---- Idle ----------------------------------------------------------------------------------------------------------------------------

// The thread is idle during the lifetime of the object.
class [[nodiscard]] idle {
 public:
  explicit idle(PFS_CALLER_) {
    wait_.instance = nullptr;
    PFS_CALL_(idle_begin, &wait_);
  }
  ~idle() { pfs_idle_end(&wait_); }
  idle(const idle&) = delete;
  idle& operator=(const idle&) = delete;

 private:
  pfs_wait_t wait_;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_COUNTS_HPP
