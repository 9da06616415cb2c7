// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

// The networks that --model names. This header is what the rest of the library sees: options in, a
// module out. A network is a Network (network.h), made of layers (layers.h, transformers.h) in
// the source of its family: small_networks.cpp, resnet.cpp, transformers.cpp. A new one is a
// function there and a row of the table in make_network.cpp. Parts are called as in PyTorch's or
// torchvision's network of that name, so that weights can go from one to the other.
namespace daso {

// Of --model transformer.
struct TransformerSizes {
  int layers = 2;
  int embedding = 128;  // numbers that stand for a token
  int heads = 4;        // divides the embedding
  bool operator==(const TransformerSizes&) const = default;
};

class Network;  // in network.h, which knows LibTorch's modules and is slow to compile

struct NetworkOptions {
  std::string name = "cnn";  // of network_names()
  bool text = false;         // the input is `width` tokens, each one of `classes`
  int channels = 3;
  int height = 32;
  int width = 32;
  int classes = 10;
  TransformerSizes transformer = {};
  double dropout = 0;  // in training, of networks of attention: the chance of a value to be 0
};

// mlp, cnn, resnet20 ...
std::vector<std::string> network_names();

// The optimizer that a network is usually trained with: sgd, or adamw for those of attention.
std::string usual_optimizer(const std::string& name);

// Networks of attention have it.
bool has_dropout(const std::string& name);

// Throws ConfigError for a chance outside 0 ... below 1 and for a network that has no dropout.
void check_dropout(const std::string& name, double chance);

// Throws ConfigError for sizes that make no sense, and heads that do not share the embedding.
void check_sizes(const TransformerSizes& sizes);

// For batches of one example. Throws ConfigError where BatchNorm then has one value per channel, of
// which there are no statistics in training.
void check_single_example(const NetworkOptions& options);

// Parameters come from LibTorch's default generator; what dropout draws does not, see layers.h.
// Throws ConfigError for an unknown name (with the nearest one) and for an input that is too small
// for the network or not of its kind.
std::shared_ptr<Network> make_network(const NetworkOptions& options);

}  // namespace daso
