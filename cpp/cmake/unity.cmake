# Compiles files of one folder together, because half of a cold build is the parsing of headers: 12 files take as long as three.
#   -DCMAKE_UNITY_BUILD=OFF   every file by itself, for tools that ask for the command of a file (.ci/tidy)
# The folders that probes run through stay apart where the build is for speed or finds faults of single files (tests/cpp): what the
# compiler may inline there does not depend on how files are grouped. Names in unnamed namespaces are unique within a folder.
set(PFS_FILES_OF_A_GROUP 12)
set(PFS_GROUPED_FOLDERS aggregate record/declared setup shm snapshot table tables background)
if(PFS_SANITIZE OR (NOT PFS_DEVELOPER AND NOT CMAKE_BUILD_TYPE MATCHES "Rel"))
  list(APPEND PFS_GROUPED_FOLDERS base capi record/context record/engine record/family record/probe)
endif()

# pfs_unity(TARGET): groups the target's files. A group is called FOLDER_NUMBER, with _ for /.
function(pfs_unity target)
  if(DEFINED CMAKE_UNITY_BUILD AND NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(folder ${PFS_GROUPED_FOLDERS})
    file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cpp/src/${folder}/*.cpp)
    string(REPLACE "/" "_" name ${folder})
    set(number 0)
    foreach(file ${files})
      math(EXPR group "${number} / ${PFS_FILES_OF_A_GROUP}")
      set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${name}_${group})
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
endfunction()
