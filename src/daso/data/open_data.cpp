// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/data/cifar.h"
#include "daso/data/dataset.h"
#include "daso/data/idx.h"
#include "daso/data/synthetic.h"

namespace daso {
namespace {

struct Kind {
  const char* name;
  Datasets (*open)(const std::string& rest);
};

constexpr std::array<Kind, 3> kKinds = {{
    {"synthetic", [](const std::string& rest) { return open_synthetic(parse_synthetic(rest)); }},
    {"idx", [](const std::string& rest) { return open_idx(rest); }},
    {"cifar10", [](const std::string& rest) { return open_cifar10(rest); }},
}};

}  // namespace

Datasets open_data(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind.open(rest);
    names.emplace_back(kind.name);
  }
  const std::optional<std::string> meant = nearest(name, names);
  throw ConfigError(fmt::format("there is no data of kind '{}'; {}", name,
                                meant ? fmt::format("did you mean '{}'?", *meant)
                                      : "kinds: synthetic, idx:DIR, cifar10:DIR"));
}

}  // namespace daso
