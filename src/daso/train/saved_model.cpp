// SPDX-License-Identifier: Apache-2.0
#include "daso/train/saved_model.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/model/flat_model.h"
#include "daso/model/safetensors.h"
#include "daso/train/checkpoint.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

std::vector<float> floats_in(const State& state, const std::string& name) {
  const at::Tensor values = tensor_in(state, name).to(at::kFloat).contiguous();
  const float* first = values.const_data_ptr<float>();
  return {first, first + values.numel()};
}

}  // namespace

ModelInput input_of(const Dataset& data, const Normalisation& normalisation) {
  return {.shape = data.shape(), .classes = data.classes(), .normalisation = normalisation};
}

State state_of(const ModelInput& input) {
  const ImageShape& shape = input.shape;
  return {
      {"shape", at::tensor({shape.channels, shape.height, shape.width, input.classes}, at::kLong)},
      {"mean", at::tensor(input.normalisation.mean)},
      {"deviation", at::tensor(input.normalisation.deviation)}};
}

ModelInput input_in(const State& state) {
  const at::Tensor& shape = tensor_in(state, "shape");
  require(shape.numel() == 4 && shape.scalar_type() == at::kLong,
          "'shape' of a saved input has {} numbers, not 4", shape.numel());
  const auto number = [&](int i) { return static_cast<int>(shape[i].item<std::int64_t>()); };
  return {.shape = {.channels = number(0), .height = number(1), .width = number(2)},
          .classes = number(3),
          .normalisation = {floats_in(state, "mean"), floats_in(state, "deviation")}};
}

SavedModel load_saved(const fs::path& path, bool best) {
  require(fs::is_directory(path), "there is no folder '{}'", path.string());
  const auto newest = newest_checkpoint(path / "checkpoints");
  const fs::path checkpoint = newest ? *newest : path;
  const Manifest manifest = read_manifest(checkpoint);
  const State common = read_part(checkpoint, manifest, "node-0.safetensors");
  SavedModel saved{.name = manifest.model, .input = input_in(section(common, "input."))};
  if (best) {
    const fs::path file = path / "best.safetensors";
    require(fs::exists(file), "{} does not exist; --best is for runs with --keep-best",
            file.string());
    saved.tensors = read_tensors(file).tensors;
    return saved;
  }
  saved.tensors = section(common, "model.");
  saved.tensors.merge(section(read_part(checkpoint, manifest, "rank-0.safetensors"), "model."));
  return saved;
}

std::shared_ptr<Network> network_of(const SavedModel& saved) {
  const ImageShape& shape = saved.input.shape;
  auto network = make_network({.name = saved.name,
                               .channels = shape.channels,
                               .height = shape.height,
                               .width = shape.width,
                               .classes = saved.input.classes});
  FlatModel(network).load(saved.tensors);
  return network;
}

}  // namespace daso
