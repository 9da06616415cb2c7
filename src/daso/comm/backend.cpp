// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/backend.h"

#include "daso/base/error.h"
#include "daso/base/module.h"
#include "daso/base/text.h"
#include "daso/base/version.h"

namespace daso {
namespace {

struct Loaded {
  const BackendModule* module = nullptr;
  std::string reason;  // why it is null
};

Loaded load_backend(const std::string& name) {
  const Module module = load_module(name);
  if (module.handle == nullptr) return {nullptr, module.reason};
  using Entry = const BackendModule* (*)();
  const auto entry = reinterpret_cast<Entry>(module.entry(kBackendModuleEntry));
  if (entry == nullptr) return {nullptr, fmt::format("{} is no module of daso", module.file)};
  const BackendModule* backend = entry();
  if (std::string_view(backend->version) != kVersion) {
    return {nullptr, fmt::format("{} is of version {}, daso of {}; build both together",
                                 module.file, backend->version, kVersion)};
  }
  return {backend, ""};
}

}  // namespace

std::vector<BackendStatus> backends() {
  std::vector<BackendStatus> list;
  list.push_back({"gloo", true, "inside LibTorch"});
  list.push_back({"tcp", true, "our own"});
  const Loaded mpi = load_backend("mpi");
  list.push_back({"mpi", mpi.module != nullptr, mpi.module ? mpi.module->detail : mpi.reason});
  list.push_back({"self", true, "a world of one"});
  return list;
}

void require_backend(const std::string& name) {
  if (name == "mpi") backend_module(name);
}

const BackendModule& backend_module(const std::string& name) {
  const Loaded loaded = load_backend(name);
  require(loaded.module != nullptr, "backend '{}' is not available: {}", name, loaded.reason);
  return *loaded.module;
}

std::unique_ptr<Backend> open_backend(const std::string& name, int ranks) {
  if (name == "gloo") return open_gloo();
  if (name == "tcp") return open_tcp();
  if (name == "mpi") return backend_module(name).open(ranks);
  const std::optional<std::string> meant = nearest(name, {"gloo", "tcp", "mpi", "self"});
  throw ConfigError(
      fmt::format("there is no backend '{}'{}; the backends are gloo, tcp, mpi and self", name,
                  meant ? fmt::format(", did you mean '{}'?", *meant) : ""));
}

}  // namespace daso
