// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daso/run/saved_model.h"

// What a trained model is good for: classes of images, and text that goes on.
namespace daso {

// A class that a model gives an image.
struct Guess {
  int number = 0;
  std::string name;  // its number where the classes have no names
  double probability = 0;
};

// The most likely classes of an image file, the first of them first. Throws ConfigError for a file
// that is no image, Error where what the model computes is not finite.
std::vector<Guess> classes_of(Network& network, const ModelInput& input,
                              const std::filesystem::path& image, int top);

struct GenerateOptions {
  std::string prompt;  // has one token at least
  int tokens = 200;    // to add
  // Scores are divided by it before they become probabilities; 0: the most likely token, always.
  double temperature = 1;
  std::optional<int> top_k;  // draws from the most likely ones alone
  std::uint64_t seed = 1;
};

// Hands out the prompt and then token by token what the model makes of it. The same on every call
// with the same options. Throws ConfigError for a prompt with a character that the model does not
// know, before anything is handed out.
void generate(Network& network, const ModelInput& input, const GenerateOptions& options,
              const std::function<void(std::string_view)>& hand_out);

}  // namespace daso
