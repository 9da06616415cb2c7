// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace daso {

// A tensor as torch.save describes it: a storage, which is a record of the archive, and the part
// of its elements that it shows.
struct PickledTensor {
  std::string storage;  // the name of its record in data/
  at::ScalarType type = at::kFloat;
  std::int64_t storage_elements = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

// The tensors of a state_dict in the pickle of a file that torch.save has written, by name and in
// its order. A pickle is a program for Python's machine; here nothing is executed: the few words
// that a state_dict is made of are understood, and any other, or a name of anything but tensors,
// storages and OrderedDict, is refused by its name. Sizes and offsets are as the file has them, not
// negative and with elements of the storage alone. Throws ConfigError that begins with `file`.
std::vector<std::pair<std::string, PickledTensor>> read_pickle(std::string_view pickle,
                                                               const std::string& file);

}  // namespace daso
