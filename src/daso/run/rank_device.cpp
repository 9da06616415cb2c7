// SPDX-License-Identifier: Apache-2.0
#include "daso/run/rank_device.h"

#include <cstdio>
#include <map>

#include "daso/base/error.h"
#include "daso/comm/gather_text.h"

namespace daso {
namespace {

// Ranks of this machine that come before this one.
int place_on_machine(const World& world) {
  int before = 0;
  for (int rank = 0; rank < world.rank(); ++rank) {
    if (world.host_of(rank) == world.host_of(world.rank())) ++before;
  }
  return before;
}

// Which GPU a rank has is known by itself alone: each may see others (CUDA_VISIBLE_DEVICES).
std::vector<RankSeat> seats_of(World& world, at::Device own) {
  const std::vector<std::string> gpus =
      gather_text(world.everyone(), own.is_cpu() ? std::string() : gpu_of(own).bus, world.limit());
  std::vector<RankSeat> seats;
  for (int rank = 0; rank < world.size(); ++rank) {
    seats.push_back({world.host_of(rank), gpus[static_cast<std::size_t>(rank)]});
  }
  return seats;
}

}  // namespace

DeviceFound rank_device(World& world, const DeviceChoice& choice) {
  if (choice.kind == DeviceChoice::Kind::kCpu) return {};
  const DeviceFound found = find_device(choice, place_on_machine(world));
  const std::vector<RankSeat> seats = seats_of(world, found.device);
  if (world.rank() != 0) return found;
  for (const std::string& line : sharing_of(seats)) fmt::print(stderr, "daso: {}\n", line);
  return found;
}

at::Device told_device(World& world, const DeviceChoice& choice) {
  const DeviceFound found = rank_device(world, choice);
  if (world.rank() == 0 && !found.note.empty()) fmt::print(stderr, "daso: {}\n", found.note);
  return found.device;
}

std::vector<std::string> sharing_of(const std::vector<RankSeat>& ranks) {
  std::map<std::string, std::map<std::string, int>> machines;  // ranks by GPU
  for (const auto& [host, gpu] : ranks) {
    if (!gpu.empty()) ++machines[host][gpu];
  }
  std::vector<std::string> lines;
  for (const auto& [host, gpus] : machines) {
    int all = 0;
    for (const auto& [gpu, users] : gpus) all += users;
    if (all == static_cast<int>(gpus.size())) continue;
    lines.push_back(fmt::format("{} ranks of {} share {} GPU{}", all, host, gpus.size(),
                                gpus.size() == 1 ? "" : "s"));
  }
  return lines;
}

}  // namespace daso
