// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/backend.h"

#include <dlfcn.h>

#include <filesystem>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/base/version.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

// lib/daso beside libdaso.so itself, wherever that was loaded from.
fs::path module_folder() {
  Dl_info self{};
  DASO_ASSERT(::dladdr(reinterpret_cast<const void*>(&open_backend), &self) != 0);
  std::error_code problem;
  const fs::path library = fs::canonical(self.dli_fname, problem);
  require(!problem, "{}: cannot be found: {}", self.dli_fname, problem.message());
  return library.parent_path() / "daso";
}

struct Loaded {
  const BackendModule* module = nullptr;
  std::string reason;  // why it is null
};

// Modules stay loaded for the life of the process: their threads and handlers may outlive any
// scope.
Loaded load_module(const std::string& name) {
  const fs::path file = module_folder() / fmt::format("libdaso_{}.so", name);
  if (!is_there(file)) {
    return {nullptr, fmt::format("not in this build: its library was not there when daso was built "
                                 "(no {})",
                                 file.string())};
  }
  // Global, since the plugins of Open MPI look for its symbols in the whole process.
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return {nullptr, fmt::format("cannot be loaded: {}", ::dlerror())};
  using Entry = const BackendModule* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(handle, kBackendModuleEntry));
  if (entry == nullptr) return {nullptr, fmt::format("{} is no module of daso", file.string())};
  const BackendModule* module = entry();
  if (std::string_view(module->version) != kVersion) {
    return {nullptr, fmt::format("{} is of version {}, daso of {}; build both together",
                                 file.string(), module->version, kVersion)};
  }
  return {module, ""};
}

}  // namespace

std::vector<BackendStatus> backends() {
  std::vector<BackendStatus> list;
  list.push_back({"gloo", true, "inside LibTorch"});
  const Loaded mpi = load_module("mpi");
  list.push_back({"mpi", mpi.module != nullptr, mpi.module ? mpi.module->detail : mpi.reason});
  list.push_back({"self", true, "a world of one"});
  return list;
}

void require_backend(const std::string& name) {
  if (name == "mpi") backend_module(name);
}

const BackendModule& backend_module(const std::string& name) {
  const Loaded loaded = load_module(name);
  require(loaded.module != nullptr, "backend '{}' is not available: {}", name, loaded.reason);
  return *loaded.module;
}

std::unique_ptr<Backend> open_backend(const std::string& name, int ranks) {
  if (name == "gloo") return open_gloo();
  if (name == "mpi") return backend_module(name).open(ranks);
  const std::optional<std::string> meant = nearest(name, {"gloo", "mpi", "self"});
  throw ConfigError(fmt::format("there is no backend '{}'{}; the backends are gloo, mpi and self",
                                name, meant ? fmt::format(", did you mean '{}'?", *meant) : ""));
}

}  // namespace daso
