// SPDX-License-Identifier: Apache-2.0
#include "daso/run/predict.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "daso/base/utf8.h"
#include "daso/data/picture_input.h"
#include "daso/data/text_file.h"
#include "daso/nets/network.h"

namespace daso {
namespace {

constexpr std::uint64_t kTextDraws = 9;  // tells this use of a seed from others

// Scores of one example in fp64. Throws Error where they are no numbers.
at::Tensor scores_of(Network& network, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  network.eval();
  const at::Tensor scores = network.forward(input.unsqueeze(0)).squeeze(0).to(at::kDouble);
  if (!at::isfinite(scores).all().item<bool>()) {
    throw Error("what the model computes is not finite: it has diverged in training");
  }
  return scores;
}

// The tokens of a text, for a model that knows some of them.
std::vector<std::int64_t> tokens_of(const std::string& text, const ModelInput& input) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(text.data());
  if (input.vocabulary.empty()) return {first, first + text.size()};
  std::vector<std::int64_t> tokens;
  for (const char32_t point : decode_utf8({first, text.size()}, "the prompt")) {
    const auto found = std::lower_bound(input.vocabulary.begin(), input.vocabulary.end(),
                                        static_cast<std::int64_t>(point));
    require(found != input.vocabulary.end() && *found == static_cast<std::int64_t>(point),
            "the prompt has the character '{}', which the text that the model was trained with did "
            "not have: leave it out",
            printable(utf8_of(point)));
    tokens.push_back(found - input.vocabulary.begin());
  }
  return tokens;
}

std::string text_of(const ModelInput& input, std::int64_t token) {
  if (input.vocabulary.empty()) return {static_cast<char>(token)};
  return utf8_of(static_cast<char32_t>(input.vocabulary[static_cast<std::size_t>(token)]));
}

// Draws a token by its scores. Of equal ones the first counts as the more likely, so that the same
// tokens are left whatever the machine.
std::int64_t draw(const at::Tensor& scores, const GenerateOptions& options, RandomStream& random) {
  const auto [sorted, order] = scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
  if (options.temperature == 0) return order[0].item<std::int64_t>();
  const std::int64_t all = scores.size(0);
  const std::int64_t kept = std::min<std::int64_t>(options.top_k.value_or(all), all);
  const at::Tensor chances =
      ((sorted.narrow(0, 0, kept) - sorted[0]) / options.temperature).exp().contiguous();
  const auto* const chance = chances.const_data_ptr<double>();
  double rest = random.fraction() * chances.sum().item<double>();
  std::int64_t chosen = 0;
  while (chosen + 1 < kept && rest >= chance[chosen]) rest -= chance[chosen++];
  return order[chosen].item<std::int64_t>();
}

}  // namespace

std::vector<Guess> classes_of(Network& network, const ModelInput& input,
                              const std::filesystem::path& image, int top) {
  const InputShape& shape = input.shape;
  std::vector<float> values = picture_input(image, shape, input.photographs, input.normalisation);
  const at::Tensor pixels =
      at::from_blob(values.data(), {shape.channels, shape.height, shape.width}, at::kFloat);
  const at::Tensor chances = scores_of(network, pixels).softmax(0);
  const auto [best, numbers] = chances.topk(std::min<std::int64_t>(top, chances.size(0)));
  std::vector<Guess> guesses;
  for (std::int64_t i = 0; i < best.size(0); ++i) {
    const auto number = static_cast<std::size_t>(numbers[i].item<std::int64_t>());
    guesses.push_back({.number = static_cast<int>(number),
                       .name = class_name(input, number),
                       .probability = best[i].item<double>()});
  }
  return guesses;
}

void generate(Network& network, const ModelInput& input, const GenerateOptions& options,
              const std::function<void(std::string_view)>& hand_out) {
  require(!options.prompt.empty(),
          "the prompt is empty: give at least one character to go on from");
  std::vector<std::int64_t> tokens = tokens_of(options.prompt, input);
  hand_out(options.prompt);
  RandomStream random({options.seed, kTextDraws});
  for (int i = 0; i < options.tokens; ++i) {
    // The model has never seen more than its length at once.
    const std::size_t seen = std::min(tokens.size(), static_cast<std::size_t>(input.shape.width));
    const at::Tensor context =
        at::tensor(at::ArrayRef<std::int64_t>(tokens).slice(tokens.size() - seen), at::kLong);
    const at::Tensor scores = scores_of(network, context);
    tokens.push_back(draw(scores[-1], options, random));
    hand_out(text_of(input, tokens.back()));
  }
}

}  // namespace daso
