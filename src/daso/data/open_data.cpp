// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/disk.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/data/dataset.h"
#include "daso/data/image_folder.h"
#include "daso/data/stored_images.h"
#include "daso/data/synthetic.h"
#include "daso/data/text_file.h"

namespace daso {
namespace {

struct Kind {
  const char* name;
  const char* usage;
  Datasets (*open)(const std::string& rest, const DataOptions& options);
  bool has_bad_images = false;  // that could be skipped
};

Datasets open_image_folder(const std::string& rest, const DataOptions& options) {
  ImageFolderOptions images = parse_images(rest);
  images.skip_bad = options.skip_bad_images;
  return open_images(images);
}

constexpr std::array<Kind, 6> kKinds = {{
    {"synthetic", "synthetic",
     [](const std::string& rest, const DataOptions&) {
       return open_synthetic(parse_synthetic(rest));
     }},
    {"idx", "idx:DIR", [](const std::string& rest, const DataOptions&) { return open_idx(rest); }},
    {"cifar10", "cifar10:DIR",
     [](const std::string& rest, const DataOptions&) { return open_cifar10(rest); }},
    {"cifar100", "cifar100:DIR",
     [](const std::string& rest, const DataOptions&) { return open_cifar100(rest); }},
    {"images", "images:DIR", open_image_folder, /*has_bad_images=*/true},
    {"text", "text:FILE",
     [](const std::string& rest, const DataOptions&) { return open_text(parse_text(rest)); }},
}};

}  // namespace

std::vector<std::string> data_kinds() {
  std::vector<std::string> usages;
  for (const Kind& kind : kKinds) usages.emplace_back(kind.usage);
  return usages;
}

Datasets open_data(const std::string& text, const DataOptions& options) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    names.emplace_back(kind.name);
    if (kind.name != name) continue;
    require(kind.has_bad_images || !options.skip_bad_images,
            "--skip-bad-images changes nothing here: it is for --data images:DIR");
    return Disk().within(options.limit, "opening --data " + text,
                         [open = kind.open, rest, options] { return open(rest, options); });
  }
  const std::optional<std::string> meant = nearest(name, names);
  throw ConfigError(fmt::format(
      "there is no data of kind '{}'; {}", name,
      meant ? fmt::format("did you mean '{}'?", *meant) : "kinds: " + join(data_kinds(), ", ")));
}

}  // namespace daso
