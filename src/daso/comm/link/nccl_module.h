// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daso/comm/link/shared_link.h"
#include "daso/comm/node_link.h"
#include "daso/comm/store.h"

// The node link over NCCL is a part of the CUDA module (src/daso/cuda/nccl_link.cpp). What this
// file declares is all that the library knows of it.
namespace daso {

// What a rank of a node says of itself, so that all find out whether NCCL is for them.
struct NcclSeat {
  std::string gpu;          // PCI address
  std::string version;      // of NCCL, 2.28.9; empty: none to be used
  bool shares_gpu = false;  // this NCCL lets several ranks use one GPU
  bool operator==(const NcclSeat&) const = default;
};

// True if ranks with these seats can use NCCL among each other: all have the same, and each has a
// GPU of its own, unless NCCL lets them share. The same for all who ask with the same seats.
bool nccl_takes(const std::vector<NcclSeat>& seats);

// What a link over NCCL is made from.
struct NcclPlan {
  LinkName name;
  Store store;  // this link's part of the table
  Guard guard;
  Seconds limit;
  at::Device device;
  std::optional<SharedMemory> signatures;  // of all ranks, by which a dead one is found out
  bool check_all = false;
};

// What the CUDA module exports for NCCL, with C linkage, as kNcclModuleEntry.
struct NcclModule {
  const char* version;  // kVersion that it was built with; must be ours
  // "NCCL 2.28.9": the one that is loaded.
  std::string (*detail)();
  NcclSeat (*seat)(at::Device device);
  // Called by all ranks of the node; throws as Pending::wait does.
  std::unique_ptr<NodeLink> (*open)(NcclPlan plan);
};
inline constexpr const char* kNcclModuleEntry = "daso_nccl_module";

struct NcclFound {
  const NcclModule* module = nullptr;
  std::string reason;  // why there is none
};
NcclFound find_nccl();

}  // namespace daso
