// SPDX-License-Identifier: Apache-2.0
#include "daso/run/model_metadata.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daso/base/checked_json.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/utf8.h"
#include "daso/data/batch.h"
#include "daso/data/resample.h"
#include "daso/data/text_file.h"

namespace daso {
namespace {

using nlohmann::json;

constexpr int kMost = 1 << 24;  // of any number: more is a damaged file

std::string text_of_vocabulary(const std::vector<std::int64_t>& points) {
  std::string text;
  for (const std::int64_t point : points) text += utf8_of(static_cast<char32_t>(point));
  return text;
}

// The metadata of one file; every message names both.
class Description {
 public:
  Description(const TensorFile& file, const std::string& name) : file_(file), name_(name) {}

  bool has(const char* key) const { return file_.metadata.contains(key); }
  const std::string& text(const char* key) const {
    const auto found = file_.metadata.find(key);
    require(found != file_.metadata.end(),
            "{}: its metadata does not say '{}': daso export writes files that describe "
            "themselves; give the run's folder instead",
            name_, key);
    return found->second;
  }
  int number(const char* key) const {
    const std::optional<std::int64_t> value = parse_integer(text(key));
    require(value && *value >= 1 && *value <= kMost,
            "{}: its metadata says {} = {}, which is no number of 1 ... {}", name_, key,
            shown(json(text(key))), kMost);
    return static_cast<int>(*value);
  }
  // One that some tensor has as a size: a network of others would not fit, and might be huge.
  int size(const char* key) const {
    const int value = number(key);
    const bool there =
        std::any_of(file_.tensors.begin(), file_.tensors.end(), [&](const auto& one) {
          const auto sizes = one.second.sizes();
          return std::find(sizes.begin(), sizes.end(), value) != sizes.end();
        });
    require(there, "{}: its metadata says {} = {}, and no tensor has that size", name_, key, value);
    return value;
  }
  std::vector<float> floats(const char* key, int number) const {
    const json parsed = parse_json(text(key), where(key));
    const std::vector<double> values =
        CheckedJson(parsed, where(key)).floats(static_cast<std::size_t>(number));
    return {values.begin(), values.end()};
  }
  std::vector<std::string> texts(const char* key, int number) const {
    const json parsed = parse_json(text(key), where(key));
    std::vector<std::string> all;
    for (const CheckedJson& one :
         CheckedJson(parsed, where(key)).list(static_cast<std::size_t>(number))) {
      all.push_back(one.text());
    }
    return all;
  }
  std::string where(const char* key) const {
    return fmt::format("{}: {} of its metadata", name_, key);
  }

 private:
  const TensorFile& file_;
  const std::string& name_;
};

void describe_image(Metadata& metadata, const ModelInput& input) {
  metadata["channels"] = std::to_string(input.shape.channels);
  metadata["height"] = std::to_string(input.shape.height);
  metadata["width"] = std::to_string(input.shape.width);
  metadata["mean"] = json(input.normalisation.mean).dump();
  metadata["deviation"] = json(input.normalisation.deviation).dump();
  if (input.photographs) {
    metadata["resize"] = std::to_string(resized_side(input.shape.height));
  }
  if (!input.class_names.empty()) {
    metadata["class_names"] =
        json(input.class_names).dump(-1, ' ', false, json::error_handler_t::replace);
  }
}

void describe_text(Metadata& metadata, const ModelInput& input) {
  metadata["length"] = std::to_string(input.shape.width);
  metadata["tokens"] = input.vocabulary.empty() ? "bytes" : "characters";
  if (!input.vocabulary.empty()) {
    metadata["vocabulary"] = text_of_vocabulary(input.vocabulary);
  }
  metadata["layers"] = std::to_string(input.transformer.layers);
  metadata["embedding"] = std::to_string(input.transformer.embedding);
  metadata["heads"] = std::to_string(input.transformer.heads);
}

ModelInput described_image(const Description& about) {
  ModelInput input{.shape = {.channels = about.number("channels"),
                             .height = about.number("height"),
                             .width = about.number("width")},
                   .classes = about.size("classes")};
  const auto [kind, channels, height, width] = input.shape;
  require(channels <= kMost / height / width, "{} and its sizes make a network that is too large",
          about.where("channels"));
  input.normalisation = completed(
      {.mean = about.floats("mean", channels), .deviation = about.floats("deviation", channels)},
      input.shape);
  input.photographs = about.has("resize");
  if (about.has("class_names")) input.class_names = about.texts("class_names", input.classes);
  return input;
}

ModelInput described_text(const Description& about) {
  ModelInput input{.shape = {.kind = InputKind::kText,
                             .channels = 1,
                             .height = 1,
                             .width = about.size("length")},
                   .classes = about.size("classes"),
                   .transformer = {.layers = about.number("layers"),
                                   .embedding = about.size("embedding"),
                                   .heads = about.number("heads")}};
  check_sizes(input.transformer);
  const std::string& tokens = about.text("tokens");
  require(tokens == "bytes" || tokens == "characters", "{} are neither bytes nor characters",
          about.where("tokens"));
  if (tokens == "characters") {
    const std::string& text = about.text("vocabulary");
    const auto* const first = reinterpret_cast<const std::uint8_t*>(text.data());
    for (const char32_t point : decode_utf8({first, text.size()}, about.where("vocabulary"))) {
      input.vocabulary.push_back(static_cast<std::int64_t>(point));
    }
  }
  const std::size_t known = tokens == "bytes" ? 256 : input.vocabulary.size();
  require(std::cmp_equal(known, input.classes), "{} has {} tokens, and the classes are {}",
          about.where("vocabulary"), known, input.classes);
  return input;
}

}  // namespace

Metadata metadata_of(const SavedModel& saved) {
  const ModelInput& input = saved.input;
  Metadata metadata = {{"format", "pt"}, {"model", saved.name}};
  if (input.classes == 0) return metadata;
  const bool text = input.shape.kind == InputKind::kText;
  metadata["input"] = text ? "text" : "image";
  metadata["classes"] = std::to_string(input.classes);
  text ? describe_text(metadata, input) : describe_image(metadata, input);
  return metadata;
}

SavedModel described_model(const TensorFile& file, const std::string& name) {
  const Description about(file, name);
  const std::string& kind = about.text("input");
  require(kind == "text" || kind == "image", "{} is neither text nor image", about.where("input"));
  return {.name = about.text("model"),
          .input = kind == "text" ? described_text(about) : described_image(about),
          .tensors = file.tensors};
}

std::string python_lines(const std::string& file, bool pytorch) {
  const std::string name = json(file).dump(-1, ' ', true, json::error_handler_t::replace);
  if (pytorch) {
    return fmt::format(
        "import torch\n"
        "tensors = torch.load({}, weights_only=True)\n",
        name);
  }
  return fmt::format(
      "from safetensors import safe_open  # pip install safetensors\n"
      "with safe_open({}, \"pt\") as file:\n"
      "    about = file.metadata()  # model, classes, mean and so on\n"
      "    tensors = {{name: file.get_tensor(name) for name in file.keys()}}\n",
      name);
}

}  // namespace daso
