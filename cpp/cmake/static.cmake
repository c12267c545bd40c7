# The static library is one object, with libmd in it. It shows the C API alone: the rest cannot clash with names of the program.
# It is initialized before the program's global objects, which may be instrumented: sections with a number come first.
option(PFS_STATIC "Build libperfschema.a as well" ON)
if(PFS_STATIC AND CMAKE_OBJCOPY AND NOT PFS_SANITIZE)
  set(PFS_ONE_OBJECT ${PROJECT_BINARY_DIR}/perfschema_static.o)
  add_custom_command(
    OUTPUT ${PFS_ONE_OBJECT}
    COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -Wl,--force-group-allocation -o ${PFS_ONE_OBJECT}
            "$<FILTER:$<TARGET_OBJECTS:perfschema_objects>,EXCLUDE,[.][gp]ch$>" ${PFS_LIBMD}
    COMMAND ${CMAKE_OBJCOPY} --strip-debug --wildcard --keep-global-symbol=pfs_* --rename-section .init_array=.init_array.00150
            ${PFS_ONE_OBJECT}
    DEPENDS perfschema_objects "$<TARGET_OBJECTS:perfschema_objects>"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_library(perfschema_static STATIC ${PFS_ONE_OBJECT})
  add_library(PerfSchema::perfschema_static ALIAS perfschema_static)
  set_target_properties(perfschema_static PROPERTIES EXPORT_NAME perfschema_static LINKER_LANGUAGE CXX OUTPUT_NAME perfschema)
  target_include_directories(perfschema_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/cpp/include>
                                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(perfschema_static INTERFACE cxx_std_17)
  target_link_libraries(perfschema_static INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
  if(NOT PFS_IS_TOP_LEVEL)
    set_target_properties(perfschema_static PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endif()
