// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daso/tensor/flat_model.h"
#include "daso/tensor/state.h"

namespace daso {

// What a run begins with where random numbers are not wanted: a file of tensors, without those that
// the model has anew, such as a last layer for other classes.
struct InitialModel {
  State tensors;                      // all of the model, as FlatModel::load() takes them
  std::size_t taken = 0;              // of the file
  std::vector<std::string> left_out;  // names, in the file, the model or both
};

// `skip` has the prefixes (names.h) of what is left out of the file; the model keeps its own.
// Throws ConfigError for a file that cannot be read, and for a prefix that neither of them has.
InitialModel initial_model(const FlatModel& model, const std::filesystem::path& file,
                           const std::vector<std::string>& skip);

// "--init model.pt: 60 tensors, without fc.bias, fc.weight"
std::string text_of(const InitialModel& initial, const std::filesystem::path& file);

}  // namespace daso
