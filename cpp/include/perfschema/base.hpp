// perfschema/base.hpp: call sites, keys and names of the C++ classes. Light: it includes no header of the C++ library that costs time.
//
// A class of perfschema takes its name from the constructor, or from its type:
//
//     perfschema::named<perfschema::mutex, "hnsw/LOCK_node"> node;                    C++20
//
//     PERFSCHEMA_NAME(node_lock, "hnsw/LOCK_node");                                   C++17
//     std::vector<perfschema::named_by<perfschema::mutex, node_lock>> nodes(65536);
//
// The type registers its name once, so that an object costs no look-up. A default-constructed object has the name of its class in the
// component of the program: wait/synch/mutex/PROGRAM/mutex.
#ifndef PERFSCHEMA_BASE_HPP
#define PERFSCHEMA_BASE_HPP

#include <cstddef>

#include "perfschema/pfs.h"
#ifdef __GLIBCXX__
#include <bits/functexcept.h>  // what std::mutex throws, without <system_error>
#else
#include <system_error>
#endif
#include <errno.h>

// Take the caller's call site as default arguments, and call a wrapper with it.
#define PFS_CALLER_ const char *source_file = __builtin_FILE(), uint32_t source_line = __builtin_LINE()
#ifdef PFS_DISABLE
#define PFS_CALL_(name, ...) (static_cast<void>(source_file), static_cast<void>(source_line), pfs_##name(__VA_ARGS__))
#else
#define PFS_CALL_(name, ...) pfs_##name##_at(__VA_ARGS__, source_file, source_line)
#endif

// The inline namespace of all declarations: files compiled with PFS_DISABLE have other classes than those without.
#ifdef PFS_DISABLE
#define PERFSCHEMA_BUILD disabled
#else
#define PERFSCHEMA_BUILD recorded
#endif

// Declares a type that names objects, for named_by<>.
#define PERFSCHEMA_NAME(type, literal)                               \
  struct type {                                                      \
    static constexpr const char* text() noexcept { return literal; } \
  }

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

namespace detail {

// The name of an instrument: a literal, a std::string or a std::string_view.
struct name_view {
  const char* data;
  size_t size;

  name_view(const char* text) noexcept : data(text), size(__builtin_strlen(text)) {}
  template <class Text, class = decltype(Text::npos)>
  name_view(const Text& text) noexcept : data(text.data()), size(text.size()) {}
};

using register_function = int (*)(const char*, pfs_instrument_info*, int);

// Reports the first name that pfs refused in this process.
inline void report_refused_name() noexcept {
  static char is_reported;
  if (__atomic_exchange_n(&is_reported, char{1}, __ATOMIC_RELAXED) != 0) return;
  const int error = errno;
  static_cast<void>(fprintf(stderr, "perfschema: not instrumented: %s\n", pfs_last_error()));
  errno = error;
}

inline size_t copy_name(char* to, size_t capacity, const char* from, size_t size) noexcept {
  const size_t kept = size < capacity ? size : capacity - 1;
  __builtin_memcpy(to, from, kept);
  to[kept] = '\0';
  return kept;
}

// Returns the key of "component/name", registered at the first call with that name; 0 if it cannot be.
inline pfs_key_t key_of(register_function register_one, name_view name, uint32_t flags = 0) noexcept {
  char component[160], rest[160];  // longer than any legal name, so that a name that is too long is refused
  const void* const slash = __builtin_memchr(name.data, '/', name.size);
  if (slash != nullptr) {
    const size_t before = static_cast<size_t>(static_cast<const char*>(slash) - name.data);
    copy_name(component, sizeof component, name.data, before);
    copy_name(rest, sizeof rest, name.data + before + 1, name.size - before - 1);
  } else {
    const char* const program = program_invocation_short_name;
    copy_name(component, 65, program[0] != '\0' ? program : "program", program[0] != '\0' ? __builtin_strlen(program) : 7);
    copy_name(rest, sizeof rest, name.data, name.size);
  }
  pfs_key_t key = 0;
  pfs_instrument_info info{&key, rest, flags, nullptr};
  if (register_one(component, &info, 1) != PFS_OK) report_refused_name();
  return key;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_system_error(int rc) {
#ifdef __GLIBCXX__
  std::__throw_system_error(rc);
#elif defined(__cpp_exceptions)
  throw std::system_error(rc, std::generic_category());
#else
  abort();
#endif
}

inline void check(int rc) {
  if (__builtin_expect(rc != 0, 0)) throw_system_error(rc);
}

// Tells std::adopt_lock from any other argument of a guard.
template <class>
inline constexpr bool is_adopt = false;
template <bool>
struct only_if {};
template <>
struct only_if<true> {
  using type = int;
};

}  // namespace detail

// A Base whose objects all have the name of Name (PERFSCHEMA_NAME). Further arguments follow the key in a constructor of Base.
template <class Base, class Name>
class named_by : public Base {
 public:
  named_by() : Base(key()) {}
  template <class First, class... More>
  explicit named_by(const First& first, const More&... more) : Base(key(), first, more...) {}

  static pfs_key_t key() {
    static const pfs_key_t registered = Base::key_for(Name::text());
    return registered;
  }
};

#if __cplusplus >= 202002L
namespace detail {
template <size_t Size>
struct literal {
  char characters[Size];
  constexpr literal(const char (&text)[Size]) noexcept : characters{} {
    for (size_t i = 0; i < Size; ++i) characters[i] = text[i];
  }
};
template <literal Text>
struct literal_name {
  static constexpr const char* text() noexcept { return Text.characters; }
};
}  // namespace detail

// A Base whose objects all have this name.
template <class Base, detail::literal Name>
using named = named_by<Base, detail::literal_name<Name>>;
#endif

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_BASE_HPP
