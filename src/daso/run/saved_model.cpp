// SPDX-License-Identifier: Apache-2.0
#include "daso/run/saved_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

#include "daso/base/disk.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/nets/network.h"
#include "daso/optim/ema.h"
#include "daso/run/checkpoint.h"
#include "daso/run/model_metadata.h"
#include "daso/tensor/flat_model.h"
#include "daso/tensor/pytorch_file.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNumbersBeforeTexts = 4;  // of a shape, when all inputs were images
constexpr char kBetweenNames = '\0';             // which no name of a folder can hold

std::vector<float> floats_in(const State& state, const std::string& name) {
  const at::Tensor values = tensor_in(state, name).to(at::kFloat).contiguous();
  const auto* first = values.const_data_ptr<float>();
  return {first, first + values.numel()};
}

// The trainable parameters become their averages.
void take_average(State& tensors, const State& all, const fs::path& checkpoint) {
  const State average = section(all, std::string("optimizer.") + WithEma::kSection);
  require(!average.empty(), "{} has no averaged parameters; --ema is for runs with --ema",
          checkpoint.string());
  for (const auto& [name, tensor] : average) tensors[name] = tensor;
}

std::vector<std::int64_t> integers_in(const State& state, const std::string& name) {
  const at::Tensor values = tensor_in(state, name).to(at::kLong).contiguous();
  const auto* first = values.const_data_ptr<std::int64_t>();
  return {first, first + values.numel()};
}

// A state holds tensors only: the names become their bytes.
at::Tensor bytes_of(const std::vector<std::string>& names) {
  const std::string text = join(names, std::string_view(&kBetweenNames, 1));
  return at::tensor(std::vector<std::uint8_t>(text.begin(), text.end()), at::kByte);
}

std::vector<std::string> names_in(const at::Tensor& saved) {
  const at::Tensor values = saved.to(at::kByte).contiguous();
  const auto* first = values.const_data_ptr<std::uint8_t>();
  return split(std::string(first, first + values.numel()), kBetweenNames);
}

TransformerSizes sizes_in(const std::vector<std::int64_t>& numbers) {
  require(numbers.size() == 3, "'transformer' of a saved input has {} numbers, not 3",
          numbers.size());
  return {.layers = static_cast<int>(numbers[0]),
          .embedding = static_cast<int>(numbers[1]),
          .heads = static_cast<int>(numbers[2])};
}

InputKind kind_of(std::int64_t number) {
  require(number == 0 || number == 1, "a saved input is of kind {}, which is neither 0 nor 1",
          number);
  return number == 0 ? InputKind::kImage : InputKind::kText;
}

}  // namespace

ModelInput input_of(const Dataset& data, const Normalisation& normalisation,
                    const TransformerSizes& transformer) {
  ModelInput input{
      .shape = data.shape(), .classes = data.classes(), .normalisation = normalisation};
  if (input.shape.kind == InputKind::kText) {
    input.vocabulary = as_text(data).vocabulary();
    input.transformer = transformer;
  } else {
    input.class_names = as_images(data).class_names();
    input.photographs = as_images(data).draws_crops();
  }
  return input;
}

State state_of(const ModelInput& input) {
  const InputShape& shape = input.shape;
  const bool text = shape.kind == InputKind::kText;
  State state = {
      {"shape", at::tensor({shape.channels, shape.height, shape.width, input.classes, text ? 1 : 0},
                           at::kLong)},
      {"mean", at::tensor(input.normalisation.mean)},
      {"deviation", at::tensor(input.normalisation.deviation)}};
  if (text) {
    const TransformerSizes& sizes = input.transformer;
    state["vocabulary"] = at::tensor(input.vocabulary, at::kLong);
    state["transformer"] = at::tensor({sizes.layers, sizes.embedding, sizes.heads}, at::kLong);
  }
  if (input.photographs) state["photographs"] = integer(1);
  if (!input.class_names.empty()) state["class_names"] = bytes_of(input.class_names);
  return state;
}

ModelInput input_in(const State& state) {
  const std::vector<std::int64_t> numbers = integers_in(state, "shape");
  require(
      std::ssize(numbers) == kNumbersBeforeTexts || std::ssize(numbers) == kNumbersBeforeTexts + 1,
      "'shape' of a saved input has {} numbers, not {}", numbers.size(), kNumbersBeforeTexts + 1);
  const auto number = [&](std::size_t i) { return static_cast<int>(numbers[i]); };
  const InputKind kind =
      std::ssize(numbers) > kNumbersBeforeTexts ? kind_of(numbers.back()) : InputKind::kImage;
  ModelInput input{
      .shape = {.kind = kind, .channels = number(0), .height = number(1), .width = number(2)},
      .classes = number(3),
      .normalisation = {floats_in(state, "mean"), floats_in(state, "deviation")}};
  if (kind == InputKind::kText) {
    input.vocabulary = integers_in(state, "vocabulary");
    input.transformer = sizes_in(integers_in(state, "transformer"));
  }
  input.photographs = state.contains("photographs");
  // Older checkpoints have none, and data without names.
  if (state.contains("class_names")) input.class_names = names_in(state.at("class_names"));
  return input;
}

std::string class_name(const ModelInput& input, std::size_t number) {
  return number < input.class_names.size() ? input.class_names[number] : std::to_string(number);
}

void require_same_classes(const std::string& model, const ModelInput& trained,
                          const std::string& data, const std::vector<std::string>& found) {
  const auto [learned, here] = std::ranges::mismatch(trained.class_names, found);
  if (learned == trained.class_names.end() || here == found.end()) return;
  throw ConfigError(
      fmt::format("--data {} has class '{}' where {} was trained with '{}': classes count in the "
                  "order of their names; give its folders the names that they had in training",
                  data, *here, model, *learned));
}

namespace {

SavedModel load_file(const fs::path& path, const Choice& choice) {
  require(!choice.best && !choice.averaged,
          "--best and --ema choose from what a run has, and {} is one file: leave them out",
          path.string());
  require(!is_pytorch(path),
          "{} is a PyTorch file, which does not say what network it is of: give a run's folder, or "
          "a file of daso export --format safetensors",
          path.string());
  const std::int64_t bytes = file_bytes(path);
  const TensorFile file = Disk().within(kReadLimit + time_for(bytes), "reading " + path.string(),
                                        [path] { return read_tensors(path); });
  return described_model(file, path.string());
}

}  // namespace

SavedModel load_saved(const fs::path& path, const Choice& choice) {
  require(!choice.best || !choice.averaged,
          "--best is what was evaluated, with --ema the average already: leave out --ema");
  if (is_plain_file(path)) return load_file(path, choice);
  require(is_folder(path), "there is no folder '{}'", path.string());
  const auto newest = newest_checkpoint(path / "checkpoints");
  const fs::path checkpoint = newest ? *newest : path;
  const Manifest manifest = read_manifest(checkpoint);
  State all = read_part(checkpoint, manifest, "node-0.safetensors");
  all.merge(read_part(checkpoint, manifest, "rank-0.safetensors"));
  SavedModel saved{.name = manifest.model};
  const State input = section(all, "input.");
  if (!input.empty()) saved.input = input_in(input);  // examples of one's own have none
  if (choice.best) {
    const fs::path file = path / "best.safetensors";
    require(is_there(file), "{} does not exist; --best is for runs with --keep-best",
            file.string());
    saved.tensors = read_model(file);
    require_finite(saved.tensors, file);
    return saved;
  }
  saved.tensors = section(all, "model.");
  if (choice.averaged) take_average(saved.tensors, all, checkpoint);
  return saved;
}

std::shared_ptr<Network> network_of(const SavedModel& saved) {
  const InputShape& shape = saved.input.shape;
  require(saved.input.classes > 0,
          "model '{}' was trained by a program of its own, with examples of its own: only that "
          "program can make it again; daso export writes its tensors",
          saved.name);
  auto network = make_network({.name = saved.name,
                               .text = shape.kind == InputKind::kText,
                               .channels = shape.channels,
                               .height = shape.height,
                               .width = shape.width,
                               .classes = saved.input.classes,
                               .transformer = saved.input.transformer});
  FlatModel(network).load(saved.tensors);
  return network;
}

}  // namespace daso
