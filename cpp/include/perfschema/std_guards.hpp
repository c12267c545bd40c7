// perfschema/std_guards.hpp: the guards of the C++ library for the mutexes of perfschema. A part of pfs.hpp, which includes it.
//
// std::lock_guard calls lock() from inside the C++ library, which then looks like the call site. So the guards are specialized: they
// behave as the library's, and SOURCE is the line of the guard. std::lock() and std::scoped_lock of several mutexes are not.
#ifndef PERFSCHEMA_STD_GUARDS_HPP
#define PERFSCHEMA_STD_GUARDS_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

#include <shared_mutex>

// `...`: the mutex. A type of perfschema, or a template of it with its parameters in `parameters`.
#define PFS_STD_GUARDS_(parameters, ...)                                                                                 \
  template <parameters>                                                                                                  \
  class std::lock_guard<__VA_ARGS__> : public perfschema::lock_guard<__VA_ARGS__> {                                      \
   public:                                                                                                               \
    using perfschema::lock_guard<__VA_ARGS__>::lock_guard;                                                               \
  };                                                                                                                     \
  template <parameters>                                                                                                  \
  class std::unique_lock<__VA_ARGS__> : public perfschema::unique_lock<__VA_ARGS__> {                                    \
   public:                                                                                                               \
    using perfschema::unique_lock<__VA_ARGS__>::unique_lock;                                                             \
  };                                                                                                                     \
  template <parameters>                                                                                                  \
  class std::scoped_lock<__VA_ARGS__> : public perfschema::lock_guard<__VA_ARGS__> {                                     \
   public:                                                                                                               \
    using perfschema::lock_guard<__VA_ARGS__>::lock_guard;                                                               \
    scoped_lock(std::adopt_lock_t, __VA_ARGS__& m) noexcept : perfschema::lock_guard<__VA_ARGS__>(m, std::adopt_lock) {} \
  }
#define PFS_STD_SHARED_GUARD_(parameters, ...)                                        \
  template <parameters>                                                               \
  class std::shared_lock<__VA_ARGS__> : public perfschema::shared_lock<__VA_ARGS__> { \
   public:                                                                            \
    using perfschema::shared_lock<__VA_ARGS__>::shared_lock;                          \
  }
#define PFS_NAMED_(base) perfschema::named_by<perfschema::base, Name>

PFS_STD_GUARDS_(, perfschema::mutex);
PFS_STD_GUARDS_(, perfschema::timed_mutex);
PFS_STD_GUARDS_(, perfschema::recursive_mutex);
PFS_STD_GUARDS_(, perfschema::recursive_timed_mutex);
PFS_STD_GUARDS_(class Name, PFS_NAMED_(mutex));
PFS_STD_GUARDS_(class Name, PFS_NAMED_(timed_mutex));
PFS_STD_GUARDS_(class Name, PFS_NAMED_(recursive_mutex));
PFS_STD_GUARDS_(class Name, PFS_NAMED_(recursive_timed_mutex));
#ifdef PTHREAD_RWLOCK_INITIALIZER
PFS_STD_GUARDS_(, perfschema::shared_mutex);
PFS_STD_GUARDS_(, perfschema::shared_timed_mutex);
PFS_STD_GUARDS_(class Name, PFS_NAMED_(shared_mutex));
PFS_STD_GUARDS_(class Name, PFS_NAMED_(shared_timed_mutex));
PFS_STD_SHARED_GUARD_(, perfschema::shared_mutex);
PFS_STD_SHARED_GUARD_(, perfschema::shared_timed_mutex);
PFS_STD_SHARED_GUARD_(class Name, PFS_NAMED_(shared_mutex));
PFS_STD_SHARED_GUARD_(class Name, PFS_NAMED_(shared_timed_mutex));
#endif

#undef PFS_STD_GUARDS_
#undef PFS_STD_SHARED_GUARD_
#undef PFS_NAMED_

#endif  // PERFSCHEMA_STD_GUARDS_HPP
