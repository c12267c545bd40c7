// perfschema/thread.hpp: threads in C++. A part of pfs.hpp, which includes it. thread.h describes the rows.
//
//     perfschema::thread worker{"myapp/worker", work, argument};    thread/myapp/worker, with its parent and the parent's account
//     worker.join();
//
//     perfschema::thread_instance session{"myapp/session"};         in a thread pool: a row of threads for each session
//     { perfschema::thread_attachment as{session}; ... }            events of this block are the session's
#ifndef PERFSCHEMA_THREAD_HPP
#define PERFSCHEMA_THREAD_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

#include <functional>
#include <thread>

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

inline pfs_key_t thread_key(detail::name_view name) { return detail::key_of(pfs_register_thread, name); }

namespace detail {

inline pfs_key_t own_thread_key() {
  static const pfs_key_t key = thread_key("thread");
  return key;
}

// The parent makes it, and the new thread calls it.
class beginning {
 public:
  explicit beginning(pfs_key_t key) : key_(key) { pfs_thread_describe(&origin_); }
  // std::jthread asks whether it may pass a stop token: not to a function that takes none.
  template <class F, class... Args, class = std::enable_if_t<std::is_invocable_v<F, Args...>>>
  void operator()(F&& f, Args&&... args) {
    pfs_thread_begin(key_, nullptr, &origin_);
    std::invoke(std::forward<F>(f), std::forward<Args>(args)...);
  }
#ifdef __cpp_lib_jthread
  template <class F, class... Args>
  requires(std::is_invocable_v<F, std::stop_token, Args...>) void operator()(std::stop_token token, F&& f, Args&&... args) {
    pfs_thread_begin(key_, nullptr, &origin_);
    std::invoke(std::forward<F>(f), std::move(token), std::forward<Args>(args)...);
  }
#endif

 private:
  pfs_key_t key_;
  pfs_thread_origin_t origin_{};
};

#ifdef __cpp_lib_jthread
template <class F, class... Args>
concept runs_in_jthread = std::is_invocable_v<std::decay_t<F>, std::decay_t<Args>...> ||
    std::is_invocable_v<std::decay_t<F>, std::stop_token, std::decay_t<Args>...>;
#endif

}  // namespace detail

// std::thread, instrumented from its first instruction. Moves, joins, detaches and terminates as std::thread does.
class thread {
 public:
  using id = std::thread::id;
  using native_handle_type = std::thread::native_handle_type;

  thread() noexcept = default;
  // Runs f(args...), copied as std::thread copies them. `name` is "component/name", registered at its first use. Throws std::system_error
  // if no thread can be made.
  template <class F, class... Args, class = std::enable_if_t<std::is_invocable_v<std::decay_t<F>, std::decay_t<Args>...>>>
  explicit thread(std::string_view name, F&& f, Args&&... args)
      : thread(thread_key(name), std::forward<F>(f), std::forward<Args>(args)...) {}
  template <class F, class... Args, class = std::enable_if_t<std::is_invocable_v<std::decay_t<F>, std::decay_t<Args>...>>>
  explicit thread(pfs_key_t key, F&& f, Args&&... args)
      : thread_(detail::beginning(key), std::forward<F>(f), std::forward<Args>(args)...) {}
  // Has no name of its own: thread/PROGRAM/thread.
  template <
      class F, class... Args,
      class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, thread> && std::is_invocable_v<std::decay_t<F>, std::decay_t<Args>...>>>
  explicit thread(F&& f, Args&&... args) : thread(detail::own_thread_key(), std::forward<F>(f), std::forward<Args>(args)...) {}

  bool joinable() const noexcept { return thread_.joinable(); }
  void join() { thread_.join(); }
  void detach() { thread_.detach(); }
  id get_id() const noexcept { return thread_.get_id(); }
  native_handle_type native_handle() { return thread_.native_handle(); }
  static unsigned hardware_concurrency() noexcept { return std::thread::hardware_concurrency(); }
  void swap(thread& other) noexcept { thread_.swap(other.thread_); }

 private:
  std::thread thread_;
};
inline void swap(thread& a, thread& b) noexcept { a.swap(b); }

#ifdef __cpp_lib_jthread
// std::jthread, instrumented from its first instruction. f may take a std::stop_token as its first argument.
class jthread {
 public:
  using id = std::jthread::id;
  using native_handle_type = std::jthread::native_handle_type;

  jthread() noexcept = default;
  // Run f(args...) or f(token, args...), named as a perfschema::thread is.
  template <class F, class... Args>
  requires detail::runs_in_jthread<F, Args...>
  explicit jthread(std::string_view name, F&& f, Args&&... args)
      : jthread(thread_key(name), std::forward<F>(f), std::forward<Args>(args)...) {}
  template <class F, class... Args>
  requires detail::runs_in_jthread<F, Args...>
  explicit jthread(pfs_key_t key, F&& f, Args&&... args)
      : thread_(detail::beginning(key), std::forward<F>(f), std::forward<Args>(args)...) {}
  template <class F, class... Args>
  requires(detail::runs_in_jthread<F, Args...> && !std::is_same_v<std::remove_cvref_t<F>, jthread>) explicit jthread(F&& f, Args&&... args)
      : jthread(detail::own_thread_key(), std::forward<F>(f), std::forward<Args>(args)...) {}

  bool joinable() const noexcept { return thread_.joinable(); }
  void join() { thread_.join(); }
  void detach() { thread_.detach(); }
  id get_id() const noexcept { return thread_.get_id(); }
  native_handle_type native_handle() { return thread_.native_handle(); }
  std::stop_source get_stop_source() noexcept { return thread_.get_stop_source(); }
  std::stop_token get_stop_token() const noexcept { return thread_.get_stop_token(); }
  bool request_stop() noexcept { return thread_.request_stop(); }
  static unsigned hardware_concurrency() noexcept { return std::jthread::hardware_concurrency(); }
  void swap(jthread& other) noexcept { thread_.swap(other.thread_); }

 private:
  std::jthread thread_;
};
inline void swap(jthread& a, jthread& b) noexcept { a.swap(b); }
#endif

// A row of threads, at first attached to no thread. No other thread may have it attached when it is destroyed.
class thread_instance {
 public:
  // `identity` and `processlist_id`: see pfs_thread_new().
  explicit thread_instance(std::string_view name, const void* identity = nullptr, uint64_t processlist_id = 0)
      : thread_instance(thread_key(name), identity, processlist_id) {}
  explicit thread_instance(const char* name, const void* identity = nullptr, uint64_t processlist_id = 0)
      : thread_instance(std::string_view(name), identity, processlist_id) {}
  explicit thread_instance(pfs_key_t key, const void* identity = nullptr, uint64_t processlist_id = 0)
      : thread_(pfs_thread_new(key, identity, processlist_id)) {}
  ~thread_instance() { pfs_thread_delete(thread_); }
  thread_instance(const thread_instance&) = delete;
  thread_instance& operator=(const thread_instance&) = delete;

  pfs_thread_t get() const noexcept { return thread_; }  // 0 = not instrumented: events under it are dropped
  uint64_t thread_id() const noexcept { return pfs_thread_id_of(thread_); }

 private:
  pfs_thread_t thread_;
};

// Attaches the instance to the calling thread during the lifetime of this object; afterwards the earlier one is attached again. Throws
// perfschema::error if another thread has it.
class [[nodiscard]] thread_attachment {
 public:
  explicit thread_attachment(const thread_instance& instance) : thread_attachment(instance.get()) {}
  explicit thread_attachment(pfs_thread_t thread) {
    pfs_thread_id();  // gives a thread without events its own context now, to return to
    before_ = pfs_thread_current();
    detail::check_pfs(pfs_thread_attach(thread));
  }
  ~thread_attachment() { pfs_thread_attach(before_); }
  thread_attachment(const thread_attachment&) = delete;
  thread_attachment& operator=(const thread_attachment&) = delete;

 private:
  pfs_thread_t before_ = 0;
};

// Names the calling thread: "component/name" is shown as thread/component/name. Throws perfschema::error.
inline void set_thread_name(const char* name) { detail::check_pfs(pfs_set_thread_name(name)); }
inline void set_thread_name(const std::string& name) { set_thread_name(name.c_str()); }

// Sets the account that the calling thread works for.
inline void set_account(const char* user, const char* host) { detail::check_pfs(pfs_set_account(user, host)); }
inline void set_account(const std::string& user, const std::string& host) { set_account(user.c_str(), host.c_str()); }

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_THREAD_HPP
