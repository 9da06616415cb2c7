// SPDX-License-Identifier: Apache-2.0
// A module, data and loss of our own, with all that `daso train` has: checkpoints, --resume,
// signals, metrics, a report, and its flags.
//   daso run --nodes 2 --ranks-per-node 2 -- ./own_run --epochs 20 --out runs/own_run
#include <daso/comm/no_reverse_lookup.h>
#include <daso/run/settings.h>
#include <daso/run/train.h>
#include <torch/torch.h>

struct Curve : torch::nn::Module {
  Curve() { register_module("layers", layers); }
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x); }

  torch::nn::Sequential layers{torch::nn::Linear(1, 64), torch::nn::Tanh(),
                               torch::nn::Linear(64, 1)};
};

// Made on every rank, and the same on all of them: LibTorch's generator begins at --seed.
daso::Task curve(const daso::Settings&) {
  const auto x = torch::rand({4096, 1}) * 6 - 3;
  const auto y = torch::sin(2 * x);
  const auto net = std::make_shared<Curve>();
  return {.module = net,
          .train = daso::tensors(x.slice(0, 0, 3584), y.slice(0, 0, 3584)),
          .test = daso::tensors(x.slice(0, 3584), y.slice(0, 3584)),
          .loss =
              [net](const daso::Batch& batch) {
                return torch::mse_loss(net->forward(batch.inputs), batch.labels);
              },
          .model = "curve",
          .data = "sin(2x)"};
}

int main(int argc, char** argv) {
  daso::Settings settings;  // what the flags do not say
  settings.epochs = 20;
  settings.optimizer.name = "adamw";
  settings.lr = 0.01;
  settings.out = "runs/own_run";
  return daso::train_main(argc, argv, settings, curve);
}
