// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daso/data/loader.h"
#include "daso/nets/make_network.h"
#include "daso/tensor/state.h"

namespace daso {

class Network;  // in network.h

// What a network expects at its input, how many classes it tells apart, and its sizes where they
// are asked for.
struct ModelInput {
  InputShape shape;
  int classes = 0;
  Normalisation normalisation;           // empty for texts
  std::vector<std::int64_t> vocabulary;  // of a text of characters; empty: bytes, or images
  std::vector<std::string> class_names;  // of images; empty: they have none, or are not known
  TransformerSizes transformer;          // of a text
  bool photographs = false;              // images of any size; their centre is taken (resample.h)
};

ModelInput input_of(const Dataset& data, const Normalisation& normalisation,
                    const TransformerSizes& transformer);
State state_of(const ModelInput& input);
ModelInput input_in(const State& state);

// What a class is called; its number where it has no name.
std::string class_name(const ModelInput& input, std::size_t number);

// Refuses data with another class where the model has learned this one; both are called as given.
// Names that only one of them has say nothing.
void require_same_classes(const std::string& model, const ModelInput& trained,
                          const std::string& data, const std::vector<std::string>& found);

// A model as a run left it.
struct SavedModel {
  std::string name;  // of its network
  ModelInput input;
  State tensors;  // parameters and buffers by name
};

// Which of the models that a run has.
struct Choice {
  bool best = false;      // of the best epoch, as it was evaluated; else of the newest checkpoint
  bool averaged = false;  // of that checkpoint with the averaged parameters (ema.h)
};

// From a run's folder, a checkpoint's, or a file that describes itself (model_metadata.h). Throws
// ConfigError.
SavedModel load_saved(const std::filesystem::path& path, const Choice& choice);

// The network with the saved values.
std::shared_ptr<Network> network_of(const SavedModel& saved);

}  // namespace daso
