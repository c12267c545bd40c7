// run/functions.h: the functions of the C library that libperfschema-run.so looks up by name when it starts.
//
// For each F(name), real.cpp makes pfs_real_name, which points to the function that the program would call without this library, and
// __next_name, which jumps there: the calls of the C API, which are the program's. pfs_own_name points to the C library's function, and
// __wrap_name jumps there: the calls that the core, and the C++ library inside it, make for themselves. The linker's --wrap sends them to
// __wrap_name (CMakeLists.txt reads these lists). So nothing here ever calls a replacement.
#pragma once

// clang-format off
// These are replaced in a program.
#define PFS_RUN_FUNCTIONS(F) \
  F(pthread_mutex_init) \
  F(pthread_mutex_destroy) \
  F(pthread_mutex_lock) \
  F(pthread_mutex_trylock) \
  F(pthread_mutex_timedlock) \
  F(pthread_mutex_clocklock) \
  F(pthread_mutex_unlock) \
  F(mtx_init) \
  F(mtx_destroy) \
  F(mtx_lock) \
  F(mtx_trylock) \
  F(mtx_timedlock) \
  F(mtx_unlock) \
  F(pthread_rwlock_init) \
  F(pthread_rwlock_destroy) \
  F(pthread_rwlock_rdlock) \
  F(pthread_rwlock_tryrdlock) \
  F(pthread_rwlock_timedrdlock) \
  F(pthread_rwlock_clockrdlock) \
  F(pthread_rwlock_wrlock) \
  F(pthread_rwlock_trywrlock) \
  F(pthread_rwlock_timedwrlock) \
  F(pthread_rwlock_clockwrlock) \
  F(pthread_rwlock_unlock) \
  F(pthread_spin_init) \
  F(pthread_spin_destroy) \
  F(pthread_spin_lock) \
  F(pthread_spin_trylock) \
  F(pthread_spin_unlock) \
  F(pthread_cond_init) \
  F(pthread_cond_destroy) \
  F(pthread_cond_wait) \
  F(pthread_cond_timedwait) \
  F(pthread_cond_clockwait) \
  F(cnd_init) \
  F(cnd_destroy) \
  F(cnd_wait) \
  F(cnd_timedwait) \
  F(pthread_once) \
  F(call_once) \
  F(pthread_barrier_init) \
  F(pthread_barrier_destroy) \
  F(pthread_barrier_wait) \
  F(sem_init) \
  F(sem_open) \
  F(sem_close) \
  F(sem_destroy) \
  F(sem_wait) \
  F(sem_timedwait) \
  F(sem_clockwait) \
  F(sem_trywait) \
  F(sem_post) \
  F(pthread_create) \
  F(pthread_setname_np) \
  F(thrd_create) \
  F(prctl) \
  F(chroot) \
  F(setuid) \
  F(seteuid) \
  F(setreuid) \
  F(setresuid) \
  F(syscall) \
  F(dlopen) \
  F(dlmopen) \
  F(execve) \
  F(execv) \
  F(execvpe) \
  F(execvp) \
  F(fexecve) \
  F(execl) \
  F(execlp) \
  F(execle) \
  F(posix_spawn) \
  F(posix_spawnp) \
  F(vfork) \
  F(_Fork) \
  F(clone) \
  F(__register_atfork) \
  F(open) \
  F(open64) \
  F(openat) \
  F(openat64) \
  F(__open_2) \
  F(__open64_2) \
  F(__openat_2) \
  F(__openat64_2) \
  F(creat) \
  F(creat64) \
  F(mkstemp) \
  F(mkstemp64) \
  F(close) \
  F(read) \
  F(__read_chk) \
  F(write) \
  F(pread) \
  F(pread64) \
  F(__pread_chk) \
  F(__pread64_chk) \
  F(pwrite) \
  F(pwrite64) \
  F(readv) \
  F(writev) \
  F(preadv) \
  F(preadv64) \
  F(pwritev) \
  F(pwritev64) \
  F(lseek) \
  F(lseek64) \
  F(fsync) \
  F(fdatasync) \
  F(ftruncate) \
  F(ftruncate64) \
  F(truncate) \
  F(truncate64) \
  F(stat) \
  F(stat64) \
  F(lstat) \
  F(lstat64) \
  F(fstat) \
  F(fstat64) \
  F(rename) \
  F(unlink) \
  F(remove) \
  F(mkdir) \
  F(rmdir) \
  F(mkostemp) \
  F(mkostemp64) \
  F(mkstemps) \
  F(mkstemps64) \
  F(mkostemps) \
  F(mkostemps64) \
  F(tmpfile) \
  F(tmpfile64) \
  F(memfd_create) \
  F(opendir) \
  F(closedir) \
  F(__xstat) \
  F(__xstat64) \
  F(__lxstat) \
  F(__lxstat64) \
  F(access) \
  F(faccessat) \
  F(mkdirat) \
  F(link) \
  F(linkat) \
  F(symlink) \
  F(symlinkat) \
  F(unlinkat) \
  F(renameat) \
  F(renameat2) \
  F(fstatat) \
  F(fstatat64) \
  F(__fxstatat) \
  F(__fxstatat64) \
  F(statx) \
  F(__fxstat) \
  F(__fxstat64) \
  F(syncfs) \
  F(sync_file_range) \
  F(fallocate) \
  F(fallocate64) \
  F(posix_fallocate) \
  F(posix_fallocate64) \
  F(preadv2) \
  F(preadv64v2) \
  F(pwritev2) \
  F(pwritev64v2) \
  F(fcntl) \
  F(fcntl64) \
  F(close_range) \
  F(closefrom) \
  F(copy_file_range) \
  F(splice) \
  F(vdprintf) \
  F(__vdprintf_chk) \
  F(dprintf) \
  F(__dprintf_chk) \
  F(dup) \
  F(dup2) \
  F(dup3) \
  F(pipe) \
  F(pipe2) \
  F(fopen) \
  F(fopen64) \
  F(freopen) \
  F(freopen64) \
  F(fclose) \
  F(fread) \
  F(fread_unlocked) \
  F(__fread_chk) \
  F(fwrite) \
  F(fwrite_unlocked) \
  F(fgets) \
  F(__fgets_chk) \
  F(getline) \
  F(getdelim) \
  F(__fread_unlocked_chk) \
  F(fgets_unlocked) \
  F(__fgets_unlocked_chk) \
  F(__getdelim) \
  F(__isoc99_vfscanf) \
  F(__isoc99_fscanf) \
  F(__isoc99_vscanf) \
  F(__isoc99_scanf) \
  F(__isoc23_vfscanf) \
  F(__isoc23_fscanf) \
  F(__isoc23_vscanf) \
  F(__isoc23_scanf) \
  F(fputs) \
  F(fputs_unlocked) \
  F(puts) \
  F(printf) \
  F(vprintf) \
  F(fprintf) \
  F(vfprintf) \
  F(__printf_chk) \
  F(__vprintf_chk) \
  F(__fprintf_chk) \
  F(__vfprintf_chk) \
  F(fflush) \
  F(fseek) \
  F(fseeko) \
  F(fseeko64) \
  F(ftell) \
  F(ftello) \
  F(ftello64) \
  F(socket) \
  F(socketpair) \
  F(accept) \
  F(accept4) \
  F(bind) \
  F(listen) \
  F(connect) \
  F(shutdown) \
  F(getsockname) \
  F(getpeername) \
  F(getsockopt) \
  F(setsockopt) \
  F(send) \
  F(recv) \
  F(__recv_chk) \
  F(sendto) \
  F(recvfrom) \
  F(__recvfrom_chk) \
  F(sendmsg) \
  F(sendfile) \
  F(sendfile64) \
  F(recvmsg) \
  F(sendmmsg) \
  F(recvmmsg) \
  F(poll) \
  F(__poll_chk) \
  F(ppoll) \
  F(__ppoll_chk) \
  F(epoll_pwait2) \
  F(select) \
  F(pselect) \
  F(epoll_wait) \
  F(epoll_pwait)

// Of these, some C libraries that pfs supports lack some: F(name, version) for each version of glibc that has it. This library has them under
// these versions only. So a reference without a version, such as a weak one or dlsym(), finds what the C library has, or nothing.
#define PFS_RUN_NEWER(F) \
  F(pthread_mutex_clocklock, 2.30) \
  F(pthread_mutex_clocklock, 2.34) \
  F(pthread_rwlock_clockrdlock, 2.30) \
  F(pthread_rwlock_clockrdlock, 2.34) \
  F(pthread_rwlock_clockwrlock, 2.30) \
  F(pthread_rwlock_clockwrlock, 2.34) \
  F(pthread_cond_clockwait, 2.30) \
  F(pthread_cond_clockwait, 2.34) \
  F(sem_clockwait, 2.30) \
  F(sem_clockwait, 2.34) \
  F(_Fork, 2.34) \
  F(close_range, 2.34) \
  F(closefrom, 2.34) \
  F(epoll_pwait2, 2.35) \
  F(__isoc23_vfscanf, 2.38) \
  F(__isoc23_fscanf, 2.38) \
  F(__isoc23_vscanf, 2.38) \
  F(__isoc23_scanf, 2.38)

// These are only called. The C library of the compiler has them under a version that older ones do not know. A reference to that version
// would keep a program from starting that has such a C library.
#define PFS_RUN_BORROWED(F) \
  F(dladdr) \
  F(dladdr1) \
  F(dlclose) \
  F(dlsym) \
  F(_dl_find_object) \
  F(pthread_attr_setstacksize) \
  F(pthread_condattr_setclock) \
  F(pthread_getname_np) \
  F(pthread_key_create) \
  F(__pthread_key_create) \
  F(pthread_setspecific) \
  F(pthread_sigmask) \
  F(pthread_timedjoin_np) \
  F(getentropy)
// clang-format on
