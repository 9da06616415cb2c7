// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/make_network.h"

#include <algorithm>
#include <array>
#include <optional>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/nets/network.h"

namespace daso {
namespace {

using Make = std::shared_ptr<Network> (*)(const NetworkOptions& options);

struct Entry {
  const char* name;
  int smallest;  // height and width of the input; every halving has then something to halve
  Make make;
  bool attention = false;
  bool text = false;
};

// Of images up to this height and width the resnets for photographs, whose smallest input it is,
// leave one pixel.
constexpr int kOnePixel = 32;

template <int kBlocks>
std::shared_ptr<Network> small_resnet(const NetworkOptions& options) {
  return make_small_resnet(options, kBlocks);
}

template <int... kGroups>
std::shared_ptr<Network> basic_resnet(const NetworkOptions& options) {
  return make_basic_resnet(options, {kGroups...});
}

template <int... kGroups>
std::shared_ptr<Network> bottleneck_resnet(const NetworkOptions& options) {
  return make_bottleneck_resnet(options, {kGroups...});
}

constexpr std::array kNetworks = {
    Entry{"mlp", 1, make_mlp},                               //
    Entry{"cnn", 8, make_cnn},                               //
    Entry{"resnet20", 8, small_resnet<3>},                   //
    Entry{"resnet32", 8, small_resnet<5>},                   //
    Entry{"resnet44", 8, small_resnet<7>},                   //
    Entry{"resnet56", 8, small_resnet<9>},                   //
    Entry{"resnet18", 32, basic_resnet<2, 2, 2, 2>},         //
    Entry{"resnet34", 32, basic_resnet<3, 4, 6, 3>},         //
    Entry{"resnet50", 32, bottleneck_resnet<3, 4, 6, 3>},    //
    Entry{"resnet101", 32, bottleneck_resnet<3, 4, 23, 3>},  //
    Entry{"resnet152", 32, bottleneck_resnet<3, 8, 36, 3>},  //
    Entry{"vit-tiny", 8, make_vit_tiny, /*attention=*/true},
    Entry{"transformer", 1, make_transformer, /*attention=*/true, /*text=*/true},
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
    if (!entry.text && entry.smallest <= size) {
      list.push_back(fmt::format("{0} (from {1}x{1})", entry.name, entry.smallest));
    }
  }
  return join(list, ", ");
}

void check_image(const Entry& entry, const NetworkOptions& options) {
  check_range("channels", options.channels, 1);
  check_range("height", options.height, 1);
  const int smaller = std::min(options.height, options.width);
  require(
      smaller >= entry.smallest,
      "model '{0}' needs images of at least {1}x{1} pixels, these have {2}x{3}; take larger ones "
      "or another model: {4}",
      entry.name, entry.smallest, options.height, options.width, fitting(smaller));
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kNetworks) names.emplace_back(entry.name);
  return names;
}

std::string usual_optimizer(const std::string& name) {
  return entry_of(name).attention ? "adamw" : "sgd";
}

bool has_dropout(const std::string& name) { return entry_of(name).attention; }

void check_dropout(const std::string& name, double chance) {
  require(chance >= 0 && chance < 1, "dropout must be in 0 ... below 1, got {}", chance);
  require(chance == 0 || has_dropout(name), "model '{}' has no dropout; leave it at 0", name);
}

void check_sizes(const TransformerSizes& sizes) {
  check_range("layers", sizes.layers, 1);
  check_range("embedding", sizes.embedding, 1);
  check_range("heads", sizes.heads, 1);
  require(sizes.embedding % sizes.heads == 0,
          "the heads share the embedding equally: {} is no multiple of {} heads", sizes.embedding,
          sizes.heads);
}

void check_single_example(const NetworkOptions& options) {
  const bool one_pixel = entry_of(options.name).smallest == kOnePixel &&
                         std::max(options.height, options.width) <= kOnePixel;
  require(
      !one_pixel,
      "a batch of 1 example leaves the last BatchNorm of model '{}' one value per channel, since "
      "images of {}x{} become one pixel there, and it needs more in training; give batches of 2 or "
      "more, or larger images",
      options.name, options.height, options.width);
}

std::shared_ptr<Network> make_network(const NetworkOptions& options) {
  const Entry& entry = entry_of(options.name);
  require(entry.text == options.text, "model '{}' is for {}, the data holds {}; take {}",
          entry.name, entry.text ? "texts" : "images", options.text ? "texts" : "images",
          options.text ? "model 'transformer'" : "another model, or data that is a text");
  check_range("width", options.width, 1);
  check_range("classes", options.classes, 2);
  check_dropout(options.name, options.dropout);
  if (entry.text) {
    check_sizes(options.transformer);
  } else {
    check_image(entry, options);
  }
  return entry.make(options);
}

}  // namespace daso
