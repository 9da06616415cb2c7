// SPDX-License-Identifier: Apache-2.0
#include "daso/base/module.h"

#include <dlfcn.h>

#include <filesystem>

#include "daso/base/error.h"
#include "daso/base/paths.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

// lib/daso beside libdaso.so itself, wherever that was loaded from.
fs::path module_folder() {
  Dl_info self{};
  DASO_ASSERT(::dladdr(reinterpret_cast<const void*>(&load_module), &self) != 0);
  std::error_code problem;
  const fs::path library = fs::canonical(self.dli_fname, problem);
  require(!problem, "{}: cannot be found: {}", self.dli_fname, problem.message());
  return library.parent_path() / "daso";
}

fs::path file_of(const std::string& name) {
  return module_folder() / fmt::format("libdaso_{}.so", name);
}

}  // namespace

void* Module::entry(const char* name) const {
  return handle == nullptr ? nullptr : ::dlsym(handle, name);
}

Module load_module(const std::string& name) {
  Module module;
  const fs::path file = file_of(name);
  module.file = file.string();
  if (!is_there(file)) {
    module.reason = fmt::format(
        "not in this build: its library was not there when daso was built (no {})", module.file);
    return module;
  }
  // Global, since the plugins of Open MPI look for its symbols in the whole process.
  module.handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module.handle == nullptr) module.reason = fmt::format("not loadable: {}", ::dlerror());
  return module;
}

bool module_is_built(const std::string& name) { return is_there(file_of(name)); }

}  // namespace daso
