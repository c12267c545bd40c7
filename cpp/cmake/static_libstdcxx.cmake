# -DPFS_STATIC_LIBSTDCXX=ON links everything with the static C++ library and hides it, so that the result runs beside an older libstdc++.so
# than the compiler's. libgcc_s stays shared: the unwinder of pthread_cancel() must be the one that finds our frames.
option(PFS_STATIC_LIBSTDCXX "Link libstdc++ statically, for machines with an older one" OFF)
if(PFS_STATIC_LIBSTDCXX)
  add_link_options(-static-libstdc++ -Wl,--exclude-libs,ALL)
  add_library(pfs_old_glibc OBJECT cpp/cmake/old_glibc.c)
  link_libraries($<BUILD_INTERFACE:$<TARGET_OBJECTS:pfs_old_glibc>>)
endif()
