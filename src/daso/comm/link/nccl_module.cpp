// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/nccl_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "daso/base/module.h"
#include "daso/base/version.h"

namespace daso {

bool nccl_takes(const std::vector<NcclSeat>& seats) {
  std::set<std::string> gpus;
  for (const NcclSeat& seat : seats) {
    if (seat.version.empty() || seat.version != seats.front().version) return false;
    gpus.insert(seat.gpu);
  }
  return gpus.size() == seats.size() ||
         std::all_of(seats.begin(), seats.end(), [](const auto& seat) { return seat.shares_gpu; });
}

NcclFound find_nccl() {
  const Module module = load_module("cuda");
  if (module.handle == nullptr) return {nullptr, module.reason};
  using Entry = const NcclModule* (*)();
  const auto entry = reinterpret_cast<Entry>(module.entry(kNcclModuleEntry));
  if (entry == nullptr) return {nullptr, "the CUDA module was built without NCCL"};
  const NcclModule* nccl = entry();
  if (std::string_view(nccl->version) != kVersion) {
    return {nullptr, fmt::format("{} is of version {}, daso of {}; build both together",
                                 module.file, nccl->version, kVersion)};
  }
  return {nccl, ""};
}

}  // namespace daso
