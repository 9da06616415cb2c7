// SPDX-License-Identifier: Apache-2.0
#include "daso/model/network.h"

#include <algorithm>
#include <array>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/model/architectures.h"

namespace daso {
namespace {

struct Entry {
  const char* name;
  int smallest;  // height and width of the input; every halving has then something to halve
  std::shared_ptr<Network> (*make)(const NetworkOptions& options);
};

constexpr std::array kNetworks = {
    Entry{"mlp", 1, make_mlp},             //
    Entry{"cnn", 8, make_cnn},             //
    Entry{"resnet20", 8, make_resnet20},   //
    Entry{"resnet18", 32, make_resnet18},  //
    Entry{"resnet50", 32, make_resnet50},
};

const Entry& entry_of(const std::string& name) {
  const auto entry = std::find_if(kNetworks.begin(), kNetworks.end(),
                                  [&](const Entry& one) { return name == one.name; });
  if (entry != kNetworks.end()) return *entry;
  const std::vector<std::string> names = network_names();
  const std::optional<std::string> meant = nearest(name, names);
  throw ConfigError(fmt::format("there is no model '{}'{}; models: {}", name,
                                meant ? fmt::format(", did you mean '{}'?", *meant) : "",
                                join(names, ", ")));
}

void check_range(const char* what, int value, int least) {
  constexpr int kMost = 1 << 16;  // far more than fits in memory; keeps products from overflowing
  require(value >= least && value <= kMost, "the model's {} must lie in {} ... {}, asked for {}",
          what, least, kMost, value);
}

// "mlp (from 1x1), cnn (from 8x8)": those that take images of this size.
std::string fitting(int size) {
  std::vector<std::string> list;
  for (const Entry& entry : kNetworks) {
    if (entry.smallest <= size) {
      list.push_back(fmt::format("{0} (from {1}x{1})", entry.name, entry.smallest));
    }
  }
  return join(list, ", ");
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kNetworks) names.emplace_back(entry.name);
  return names;
}

std::shared_ptr<Network> make_network(const NetworkOptions& options) {
  const Entry& entry = entry_of(options.name);
  check_range("channels", options.channels, 1);
  check_range("height", options.height, 1);
  check_range("width", options.width, 1);
  check_range("classes", options.classes, 2);
  const int smaller = std::min(options.height, options.width);
  require(
      smaller >= entry.smallest,
      "model '{0}' needs images of at least {1}x{1} pixels, these have {2}x{3}; take larger ones "
      "or another model: {4}",
      entry.name, entry.smallest, options.height, options.width, fitting(smaller));
  return entry.make(options);
}

}  // namespace daso
