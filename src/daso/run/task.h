// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/TensorBody.h>

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daso/comm/world.h"
#include "daso/data/batch.h"
#include "daso/data/evaluation_loader.h"
#include "daso/data/examples.h"
#include "daso/optim/optimizer.h"
#include "daso/policy/schedule.h"
#include "daso/record/progress.h"
#include "daso/tensor/flat_model.h"
#include "daso/tensor/state.h"

namespace daso {

class DeviceFeed;  // in device_feed.h
class Network;     // in network.h
struct Settings;   // in settings.h

// Any module of LibTorch: the holder that TORCH_MODULE makes, or a shared_ptr. If it has a
// forward() of one tensor, that is kept as well.
class TaskModule {
 public:
  TaskModule() = default;  // none
  template <typename Module>
  requires(!std::same_as<Module, TaskModule>)
      TaskModule(Module module)  // not explicit: Task{.module = net}
      : module_(shared(module)) {
    if constexpr (requires(const at::Tensor& inputs) {
                    { module->forward(inputs) } -> std::convertible_to<at::Tensor>;
                  }) {
      forward_ = [module](const at::Tensor& inputs) mutable { return module->forward(inputs); };
    }
  }

  explicit operator bool() const { return module_ != nullptr; }
  const std::shared_ptr<torch::nn::Module>& get() const { return module_; }
  const std::function<at::Tensor(const at::Tensor&)>& forward() const { return forward_; }

 private:
  template <typename Module>
  static std::shared_ptr<torch::nn::Module> shared(const Module& module) {
    if constexpr (requires { module.ptr(); }) {
      return module.ptr();
    } else {
      return module;
    }
  }

  std::shared_ptr<torch::nn::Module> module_;
  std::function<at::Tensor(const at::Tensor&)> forward_;  // empty: its forward() is another
};

// What a run trains and on what, where that is one's own. The settings name whatever is left out:
//
//   Run run(settings, {.module = net, .train = tensors(x, y), .test = tensors(x2, y2)});
//
// trains any module on any tensors. All ranks give the same examples, and rank 0's parameters
// become everybody's.
struct Task {
  TaskModule module;                      // none: settings.model
  std::shared_ptr<const Examples> train;  // null: the datasets, or settings.data
  std::shared_ptr<const Examples> test;   // evaluated after each epoch
  Datasets datasets;  // instead of these: images or texts, for which settings.model has networks

  // The mean loss of the examples of a batch, in which settings.accumulate has cut it already. Runs
  // in settings.precision. Empty: cross entropy of what forward() makes of the inputs, [batch,
  // classes], with the labels.
  std::function<at::Tensor(const Batch& batch)> loss;

  // Module and loss do the same in every step: what they compute on the CPU, like a factor that
  // changes with time or a number drawn there, is none of it, and they read no value of a tensor.
  // On a GPU steps may then be captured as a graph, which does again what it did when it was
  // captured.
  bool capturable = false;

  // What an evaluation makes of a batch: means over its examples; accuracy is NaN where there is
  // none. Empty: that cross entropy and the share of right labels; with a loss of one's own that
  // loss alone. The module is in evaluation mode, and nothing needs gradients.
  std::function<Score(const Batch& batch)> score;

  // Instead of examples and a loss: batches and gradients come from a loop of one's own, which
  // takes its steps with a Course (course.h) and not with a Session.
  bool own_loop = false;
  // That loop's gradients have to be: not where it scales the loss, or tries steps that may be too
  // long.
  bool finite_gradients = true;
  // What that loop must keep to go on later, for checkpoints; may be empty.
  std::function<State()> state;
  std::function<void(const State& state)> load_state;

  // What each epoch does, in place of what the settings say of phases and cadence; empty: they do.
  std::vector<EpochPlan> schedule;

  // Empty: settings.optimizer. The model is borrowed.
  std::function<std::unique_ptr<Optimizer>(FlatModel& model)> optimizer;

  // What files and messages call the module and the examples; a run goes on by the same name.
  std::string model = "own model";
  std::string data = "own data";
};

// The settings of a run with this task, which has the names of what is its own. Throws ConfigError
// for a setting that the task leaves without effect, and a task that lacks a part.
Settings settings_with(const Task& task, const Settings& settings);

// The task's module as a network: train(), eval() and forward() are the module's.
std::shared_ptr<Network> network_of(const Task& task);

// The score of a task that has a loss or a score of its own: means over all examples of the test
// part, each of the ranks doing its own; the same on all of them. The module is on the feed's
// device.
Score evaluate(const Task& task, DeviceFeed& feed, EvaluationLoader& own_part, Communicator& ranks,
               World& world);

// Throws ConfigError for what is no single number.
void check_loss(const at::Tensor& loss);

// LibTorch's generator, from which modules like torch::nn::Dropout draw, is the run's own while
// this lives; then it goes on as if nothing had been drawn.
class TrainingDraws {
 public:
  explicit TrainingDraws(at::Device device);
  TrainingDraws(const TrainingDraws&) = delete;
  TrainingDraws& operator=(const TrainingDraws&) = delete;
  ~TrainingDraws();

  // From now on it draws by these keys alone: a run that is resumed draws the same.
  void draw_by(std::initializer_list<std::uint64_t> keys);

 private:
  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace daso
