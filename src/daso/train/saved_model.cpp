// SPDX-License-Identifier: Apache-2.0
#include "daso/train/saved_model.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/model/flat_model.h"
#include "daso/model/safetensors.h"
#include "daso/optim/ema.h"
#include "daso/train/checkpoint.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

std::vector<float> floats_in(const State& state, const std::string& name) {
  const at::Tensor values = tensor_in(state, name).to(at::kFloat).contiguous();
  const float* first = values.const_data_ptr<float>();
  return {first, first + values.numel()};
}

std::vector<int> integers_in(const State& state, const std::string& name, std::int64_t number) {
  const at::Tensor& values = tensor_in(state, name);
  require(values.numel() == number && values.scalar_type() == at::kLong,
          "'{}' of a saved input has {} numbers, not {}", name, values.numel(), number);
  std::vector<int> integers;
  for (std::int64_t i = 0; i < number; ++i) {
    integers.push_back(static_cast<int>(values[i].item<std::int64_t>()));
  }
  return integers;
}

// The trainable parameters become their averages.
void take_average(State& tensors, const State& common, const fs::path& checkpoint) {
  const State average = section(common, std::string("optimizer.") + WithEma::kSection);
  require(!average.empty(), "{} has no averaged parameters; --ema is for runs with --ema",
          checkpoint.string());
  for (const auto& [name, tensor] : average) tensors[name] = tensor;
}

}  // namespace

ModelInput input_of(const Dataset& data, const Normalisation& normalisation,
                    const TransformerSizes& transformer) {
  return {.shape = data.shape(),
          .classes = data.classes(),
          .normalisation = normalisation,
          .transformer = transformer};
}

State state_of(const ModelInput& input) {
  const ImageShape& shape = input.shape;
  const TransformerSizes& sizes = input.transformer;
  return {
      {"transformer", at::tensor({sizes.layers, sizes.embedding, sizes.heads}, at::kLong)},
      {"shape", at::tensor({shape.channels, shape.height, shape.width, input.classes}, at::kLong)},
      {"mean", at::tensor(input.normalisation.mean)},
      {"deviation", at::tensor(input.normalisation.deviation)}};
}

ModelInput input_in(const State& state) {
  const std::vector<int> shape = integers_in(state, "shape", 4);
  ModelInput input{.shape = {.channels = shape[0], .height = shape[1], .width = shape[2]},
                   .classes = shape[3],
                   .normalisation = {floats_in(state, "mean"), floats_in(state, "deviation")}};
  if (state.contains("transformer")) {  // older checkpoints have none
    const std::vector<int> sizes = integers_in(state, "transformer", 3);
    input.transformer = {.layers = sizes[0], .embedding = sizes[1], .heads = sizes[2]};
  }
  return input;
}

SavedModel load_saved(const fs::path& path, const Choice& choice) {
  require(!choice.best || !choice.averaged,
          "--best is what was evaluated, with --ema the average already: leave out --ema");
  require(fs::is_directory(path), "there is no folder '{}'", path.string());
  const auto newest = newest_checkpoint(path / "checkpoints");
  const fs::path checkpoint = newest ? *newest : path;
  const Manifest manifest = read_manifest(checkpoint);
  const State common = read_part(checkpoint, manifest, "node-0.safetensors");
  SavedModel saved{.name = manifest.model, .input = input_in(section(common, "input."))};
  if (choice.best) {
    const fs::path file = path / "best.safetensors";
    require(fs::exists(file), "{} does not exist; --best is for runs with --keep-best",
            file.string());
    saved.tensors = read_tensors(file).tensors;
    return saved;
  }
  saved.tensors = section(common, "model.");
  saved.tensors.merge(section(read_part(checkpoint, manifest, "rank-0.safetensors"), "model."));
  if (choice.averaged) take_average(saved.tensors, common, checkpoint);
  return saved;
}

std::shared_ptr<Network> network_of(const SavedModel& saved) {
  const ImageShape& shape = saved.input.shape;
  auto network = make_network({.name = saved.name,
                               .channels = shape.channels,
                               .height = shape.height,
                               .width = shape.width,
                               .classes = saved.input.classes,
                               .transformer = saved.input.transformer});
  FlatModel(network).load(saved.tensors);
  return network;
}

}  // namespace daso
