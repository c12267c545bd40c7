"""A recipe for Conan 2: `conan create cpp/packaging/conan`. It builds the C and C++ parts of this tree."""

import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt


class PerfSchema(ConanFile):
    name = "perfschema"
    license = "Apache-2.0"
    description = "A Performance Schema for any program"
    settings = "os", "arch", "compiler", "build_type"
    package_type = "library"
    options = {"shared": [True, False]}  # noqa: RUF012
    default_options = {"shared": True}  # noqa: RUF012

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "../../include/perfschema/pfs.h"))
        self.version = re.search('#define PFS_VERSION "([0-9.]+)"', header)[1]

    def export_sources(self):
        top = os.path.join(self.recipe_folder, "../../..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cpp/*"):
            copy(self, pattern, top, self.export_sources_folder)

    def system_requirements(self):
        Apt(self).install(["libmd-dev"])

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeToolchain(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # find_package(PerfSchema) takes the file that is in the package.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/PerfSchema"]
        if self.options.shared:
            self.cpp_info.libs = ["perfschema"]
        else:
            self.cpp_info.libs = [":libperfschema.a"]
            self.cpp_info.system_libs = ["stdc++", "m", "dl", "pthread"]
