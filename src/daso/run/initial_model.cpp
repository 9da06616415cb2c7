// SPDX-License-Identifier: Apache-2.0
#include "daso/run/initial_model.h"

#include <algorithm>
#include <set>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/run/checkpoint.h"
#include "daso/tensor/names.h"

namespace daso {
namespace {

bool any_begins(const State& tensors, const std::string& prefix) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& one) { return has_prefix(one.first, {prefix}); });
}

// "; did you mean fc1?"
std::string hint_of(const std::string& prefix, const State& tensors) {
  std::vector<std::string> known;
  for (const auto& [name, tensor] : tensors) {
    known.push_back(name.substr(0, name.rfind('.')));
    known.push_back(name);
  }
  const auto meant = nearest(prefix, known);
  return meant ? fmt::format("; did you mean {}?", *meant) : "";
}

}  // namespace

InitialModel initial_model(const FlatModel& model, const std::filesystem::path& file,
                           const std::vector<std::string>& skip) {
  InitialModel initial{.tensors = read_model(file)};
  State own = model.named_parameters();
  own.merge(model.named_buffers());
  for (const std::string& prefix : skip) {
    require(
        any_begins(initial.tensors, prefix) || any_begins(own, prefix),
        "--init-skip {}: neither {} nor the model has a tensor of this name, or whose name begins "
        "with {} and a dot{}",
        prefix, file.string(), prefix, hint_of(prefix, own));
  }
  std::set<std::string> left_out;
  std::erase_if(initial.tensors, [&](const auto& one) {
    return has_prefix(one.first, skip) && left_out.insert(one.first).second;
  });
  require_finite(initial.tensors, file);
  initial.taken = initial.tensors.size();
  for (const auto& [name, tensor] : own) {
    if (!has_prefix(name, skip)) continue;
    left_out.insert(name);
    initial.tensors[name] = tensor;
  }
  initial.left_out.assign(left_out.begin(), left_out.end());
  return initial;
}

std::string text_of(const InitialModel& initial, const std::filesystem::path& file) {
  return fmt::format("--init {}: {} tensors{}", file.string(), initial.taken,
                     initial.left_out.empty() ? "" : ", without " + join(initial.left_out, ", "));
}

}  // namespace daso
