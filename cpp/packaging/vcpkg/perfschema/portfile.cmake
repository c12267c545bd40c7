# An overlay port of this tree: vcpkg install perfschema --overlay-ports=cpp/packaging/vcpkg.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME PerfSchema CONFIG_PATH lib/cmake/PerfSchema)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES pfs-demo-index AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
