// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/files.h"
#include "daso/data/stored_images.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kBytesOf = 0x0800;  // the type of unsigned bytes; plus the dimensions
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

struct Array {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> values;
};

std::uint32_t take_number(ByteReader& reader, const std::string& what) {
  std::uint32_t number = 0;
  for (const std::uint8_t byte : reader.take(4, what)) number = number << 8 | byte;
  return number;
}

// The product of the sizes, so that it neither is 0 nor overflows.
std::int64_t bytes_of(const std::vector<std::int64_t>& sizes, const fs::path& path) {
  std::int64_t bytes = 1;
  for (const std::int64_t size : sizes) {
    require(size >= 1, "{}: dimensions {}: the file holds nothing", path.string(),
            fmt::join(sizes, " x "));
    require(size <= std::numeric_limits<int>::max() && size <= kMostBytes / bytes,
            "{}: dimensions {}: too large to be true", path.string(), fmt::join(sizes, " x "));
    bytes *= size;
  }
  return bytes;
}

// An array of unsigned bytes that has one of these numbers of dimensions.
Array read_array(const fs::path& path, const std::vector<std::uint32_t>& dimensions) {
  ByteReader reader(path);
  const std::uint32_t magic = take_number(reader, "the magic number");
  require(std::ranges::find(dimensions, magic - kBytesOf) != dimensions.end(),
          "{}: wrong magic number 0x{:08x}, expected 0x{:08x} (unsigned bytes, {} dimensions)",
          path.string(), magic, kBytesOf + dimensions[0], dimensions[0]);
  Array array;
  for (std::uint32_t i = 0; i < magic - kBytesOf; ++i) {
    array.sizes.push_back(take_number(reader, "its header"));
  }
  array.values = reader.take(bytes_of(array.sizes, path), "what its header promises");
  reader.expect_end();
  return array;
}

fs::path find(const fs::path& folder, const std::string& stem,
              const std::vector<std::string>& kinds) {
  std::vector<std::string> names;
  for (const char* packed : {"", ".gz"}) {
    for (const std::string& kind : kinds) {
      for (const char* joint : {"-", "."}) {
        names.push_back(fmt::format("{}{}{}-ubyte{}", stem, joint, kind, packed));
      }
    }
  }
  return first_there(folder, names);
}

struct IdxPart {
  fs::path images_path;
  fs::path labels_path;
  Images images;
};

IdxPart read_part(const fs::path& folder, const std::string& name) {
  IdxPart part{.images_path = find(folder, name + "-images", {"idx3", "idx4"}),
               .labels_path = find(folder, name + "-labels", {"idx1"})};
  Array images = read_array(part.images_path, {3, 4});
  Array labels = read_array(part.labels_path, {1});
  require(images.sizes[0] == labels.sizes[0], "{} holds {} images, {} holds {} labels",
          part.images_path.string(), images.sizes[0], part.labels_path.string(), labels.sizes[0]);
  const auto size = [&](std::size_t dimension) {
    return static_cast<int>(images.sizes[dimension]);
  };
  const std::size_t rows = images.sizes.size() - 2;
  part.images.shape = {
      .channels = rows == 2 ? size(1) : 1, .height = size(rows), .width = size(rows + 1)};
  part.images.values = std::move(images.values);
  part.images.labels = std::move(labels.values);
  return part;
}

void check_test_part(const IdxPart& test, const IdxPart& train, int classes) {
  const InputShape found = test.images.shape;
  const InputShape expected = train.images.shape;
  require(found == expected, "{}: images of {}, those of {} are {}", test.images_path.string(),
          text_of(found), train.images_path.string(), text_of(expected));
  const auto high = std::ranges::find_if(test.images.labels,
                                         [&](std::uint8_t label) { return label >= classes; });
  require(high == test.images.labels.end(),
          "{}: label {} of example {} is out of range: {} has 0 ... {}", test.labels_path.string(),
          high == test.images.labels.end() ? 0 : *high, high - test.images.labels.begin(),
          train.labels_path.string(), classes - 1);
}

}  // namespace

Datasets open_idx(const fs::path& folder) {
  require_folder(folder, "idx:DIR");
  IdxPart train = read_part(folder, "train");
  IdxPart test = read_part(folder, "t10k");
  const int classes = *std::ranges::max_element(train.images.labels) + 1;
  require(classes >= 2, "{}: all labels are 0, so there is nothing to tell apart",
          train.labels_path.string());
  check_test_part(test, train, classes);
  return {.train = std::make_shared<StoredImages>(std::move(train.images), classes),
          .test = std::make_shared<StoredImages>(std::move(test.images), classes)};
}

}  // namespace daso
