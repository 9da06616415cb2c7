// SPDX-License-Identifier: Apache-2.0
#include "daso/run/views/copies.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace daso {

std::string replayed_place(std::int64_t view, int node) {
  return fmt::format("node {} before view {}", node, view);
}

void JoinerCopies::begin(const std::vector<std::string>& places, std::int64_t exchange,
                         const State& state, const Options& options) {
  std::erase_if(made_, [](const Copy& one) { return !one.holds(); });
  for (const std::string& place : places) {
    Copy& copy = made_.emplace_back();
    copy.place = place;
    copy.exchange = copy.next = exchange;
    copy.state = state;
    if (!options.sends) continue;
    for (auto& [name, tensor] : copy.state) tensor.reset();
    copy.sender =
        std::make_unique<CopySender>(place, options.key, options.limit, options.exchange, state);
  }
}

void JoinerCopies::add(std::int64_t exchange, const at::Tensor& answer) {
  for (Copy& copy : made_) {
    if (exchange < copy.next) continue;
    copy.next = exchange + 1;
    if (copy.sender) copy.sender->add(answer);
  }
}

void JoinerCopies::drop(const std::string& place) {
  std::erase_if(made_, [&](const Copy& one) { return one.place == place; });
}

const JoinerCopies::Copy* JoinerCopies::find(const std::string& place) const {
  const auto found = std::ranges::find(made_, place, &Copy::place);
  return found == made_.end() ? nullptr : &*found;
}

}  // namespace daso
