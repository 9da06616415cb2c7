// SPDX-License-Identifier: Apache-2.0
#include "daso/run/spread.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <sstream>

#include "daso/comm/gather_text.h"

namespace daso {

State spread(World& world, int from, const State& own) {
  const bool gives = world.rank() == from;
  std::string list;  // type, shape, name
  if (gives) {
    for (const auto& [name, tensor] : own) {
      list += fmt::format("{} {} {} {}\n", static_cast<int>(tensor.scalar_type()), tensor.dim(),
                          fmt::join(tensor.sizes(), " "), name);
    }
  }
  const std::vector<std::string> lists = gather_text(world.everyone(), list, world.limit());
  std::istringstream lines(lists.at(static_cast<std::size_t>(from)));
  State state;
  int type = 0;
  std::size_t dimensions = 0;
  while (lines >> type >> dimensions) {
    std::vector<std::int64_t> sizes(dimensions);
    for (std::int64_t& size : sizes) lines >> size;
    std::string name;
    lines >> name;
    at::Tensor tensor = at::empty(sizes, static_cast<at::ScalarType>(type));
    if (gives) tensor.copy_(own.at(name));
    if (tensor.numel() > 0) {
      world.everyone().broadcast(tensor.flatten().view(at::kChar), from).wait(world.limit());
    }
    state[name] = tensor;
  }
  return state;
}

}  // namespace daso
