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
#include "daso/data/text_file.h"

namespace daso {
namespace {

struct Kind {
  const char* name;
  const char* usage;
  Datasets (*open)(const std::string& rest);
};

constexpr std::array<Kind, 5> kKinds = {{
    {"synthetic", "synthetic",
     [](const std::string& rest) { return open_synthetic(parse_synthetic(rest)); }},
    {"idx", "idx:DIR", [](const std::string& rest) { return open_idx(rest); }},
    {"cifar10", "cifar10:DIR", [](const std::string& rest) { return open_cifar10(rest); }},
    {"cifar100", "cifar100:DIR", [](const std::string& rest) { return open_cifar100(rest); }},
    {"text", "text:FILE", [](const std::string& rest) { return open_text(parse_text(rest)); }},
}};

}  // namespace

std::vector<std::string> data_kinds() {
  std::vector<std::string> usages;
  for (const Kind& kind : kKinds) usages.emplace_back(kind.usage);
  return usages;
}

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
  throw ConfigError(fmt::format(
      "there is no data of kind '{}'; {}", name,
      meant ? fmt::format("did you mean '{}'?", *meant) : "kinds: " + join(data_kinds(), ", ")));
}

}  // namespace daso
