# A toolchain: compiles with this machine's g++ for an older glibc, or for arm64 (.ci/wheels, docs/contribute/platforms.md).
#   PFS_SYSROOT   environment: a folder that has libc6-dev, linux-libc-dev, libgcc-s1 and libmd-dev of a Debian
#   PFS_ARCH      environment: x86_64 or aarch64
# Only headers of the compiler and of the C++ library come from this machine. Debian's cross compilers have a C library of their own, which
# --sysroot does not replace: so all folders of headers are named.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{PFS_ARCH})
set(CMAKE_SYSROOT $ENV{PFS_SYSROOT})
set(triple $ENV{PFS_ARCH}-linux-gnu)
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

foreach(language C CXX)
  string(REPLACE CXX C++ name ${language})
  string(TOLOWER ${name} name)
  execute_process(COMMAND ${CMAKE_${language}_COMPILER} -E -v -x ${name} /dev/null OUTPUT_QUIET ERROR_VARIABLE said
                          COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\n /[^ \n]*/c[+][+]/[^ \n]*|\n /usr/lib/gcc[^ .\n]*/include" folders "${said}")
  set(flags "-nostdinc -DPFS_OLDEST_GLIBC_MINOR=28")
  foreach(folder ${folders})
    string(STRIP "${folder}" folder)
    file(REAL_PATH ${folder} folder)
    string(APPEND flags " -isystem ${folder}")
  endforeach()
  set(CMAKE_${language}_FLAGS_INIT "${flags} -isystem ${CMAKE_SYSROOT}/usr/include/${triple} -isystem ${CMAKE_SYSROOT}/usr/include")
endforeach()

# The compiler's libstdc++.so needs a newer glibc.
set(PFS_STATIC_LIBSTDCXX ON CACHE BOOL "")
set(libraries ${CMAKE_SYSROOT}/usr/lib/${triple})
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-static-libstdc++ -Wl,--no-as-needed -B${libraries} -L${libraries} -L${CMAKE_SYSROOT}/lib/${triple}")
endforeach()
