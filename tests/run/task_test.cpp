// SPDX-License-Identifier: Apache-2.0
// Runs of a module, examples, a loss and an optimizer of one's own.
#include "daso/run/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/nets/network.h"
#include "daso/run/train.h"
#include "run_ranks.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const OnProgress kNobodyLooks = [](const Progress&) {};
const std::vector<std::string> kTwoNodes = {"a", "b"};

// The settings of small_run() without its names.
Settings own_settings(const fs::path& out) {
  Settings settings = small_run(out);
  settings.model = Settings().model;
  settings.data = Settings().data;
  return settings;
}

// As tensors, normalised as the run would do it.
std::shared_ptr<const Examples> stored(const Dataset& data, const Normalisation& normalisation) {
  const InputShape shape = data.shape();
  const at::Tensor inputs =
      at::empty({data.size(), shape.channels, shape.height, shape.width}, at::kFloat);
  const at::Tensor labels = at::empty({data.size()}, at::kLong);
  const auto elements = static_cast<std::size_t>(shape.elements());
  for (std::int64_t i = 0; i < data.size(); ++i) {
    labels[i] = as_images(data).read_normalised(i, normalisation, std::nullopt,
                                                {inputs[i].mutable_data_ptr<float>(), elements});
  }
  return tensors(inputs, labels);
}

// What small_run() trains, handed in as one's own.
Task same_as(const Settings& named) {
  const Datasets data = open_data(named.data);
  const Normalisation normalisation = normalisation_of(data.train);
  at::manual_seed(named.seed);
  const auto network =
      make_network({.name = "mlp", .channels = 1, .height = 8, .width = 8, .classes = 10});
  return {.module = network,
          .train = stored(*data.train, normalisation),
          .test = stored(*data.test, normalisation)};
}

// Two layers with dropout between, which draws from LibTorch's generator.
class WithDropout : public torch::nn::Module {
 public:
  WithDropout() {
    register_module("first", first_);
    register_module("dropout", dropout_);
    register_module("last", last_);
  }
  at::Tensor forward(const at::Tensor& inputs) {
    return last_->forward(dropout_->forward(first_->forward(inputs).relu()));
  }

 private:
  torch::nn::Linear first_{4, 16};
  torch::nn::Dropout dropout_{0.5};
  torch::nn::Linear last_{16, 2};
};

Task dropout_task() {
  at::manual_seed(3);
  const at::Tensor inputs = at::randn({128, 4});
  const at::Tensor labels = inputs.select(1, 0).gt(0).to(at::kLong);
  return {.module = std::make_shared<WithDropout>(),
          .train = tensors(inputs, labels),
          .test = tensors(inputs.narrow(0, 0, 32), labels.narrow(0, 0, 32))};
}

// One weight without a bias, and y = 3 x.
struct Line {
  torch::nn::Linear net{torch::nn::LinearOptions(1, 1).bias(false)};
  at::Tensor x = at::tensor({1.0F, 2.0F, 3.0F, 4.0F}).reshape({4, 1});

  Line() {
    const at::NoGradGuard no_grad;
    net->weight.zero_();
  }
  double weight() const { return net->weight.item<double>(); }
  Task task() {
    return {.module = net,
            .train = tensors(x, 3 * x),
            .test = tensors(x, 3 * x),
            .loss = [net = net](const Batch& batch) mutable {
              return at::mse_loss(net->forward(batch.inputs), batch.labels);
            }};
  }
};

// Steps of all four examples, at a rate that stays.
Settings line_settings(const fs::path& out) {
  Settings settings;
  settings.epochs = 5;
  settings.batch_size = 4;
  settings.lr = 0.01;
  settings.lr_schedule = RateKind::kConstant;
  settings.lr_warmup_epochs = 0;
  settings.out = out;
  return settings;
}

Summary train_alone(Run& run) {
  World world = World::alone();
  Session session(world, run);
  return session.train(kNobodyLooks, {});
}

void expect_refused(const Settings& settings, const Task& task, const std::string& reason) {
  try {
    daso::Run run(settings, task);
    ADD_FAILURE() << "not refused: " << reason;
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr(reason));
  }
}

TEST(Task, OfTheProgramsOwnPartsTrainsToTheSameBits) {
  const ScratchFolder named;
  const ScratchFolder own;
  train(small_run(named.path()));
  run_ranks({.ranks = 2, .nodes = kTwoNodes}, [&](World& world) {
    static std::mutex one_at_a_time;  // ranks that are threads share LibTorch's generator
    std::unique_lock lock(one_at_a_time);
    daso::Run run(own_settings(own.path()), same_as(small_run(own.path())));
    lock.unlock();
    Session session(world, run);
    session.train(kNobodyLooks, {});
  });
  const auto part = [](const fs::path& out) {
    return read_model(*newest_checkpoint(out / "checkpoints") / "node-0.safetensors");
  };
  const State expected = part(named.path());
  const State found = part(own.path());
  int compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("input.")) continue;  // what a network of the program's own is fed with
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
    ++compared;
  }
  EXPECT_GT(compared, 6);
}

TEST(Task, OfTheProgramsOwnDatasetsTrainsANamedNetworkToTheSameBits) {
  const ScratchFolder named;
  const ScratchFolder own;
  Settings settings = small_run(named.path());
  daso::Run expected(settings);
  train_alone(expected);
  const Datasets datasets = open_data(settings.data);
  settings.data = Settings().data;
  settings.out = own.path();
  daso::Run run(settings, {.datasets = datasets});
  train_alone(run);
  EXPECT_TRUE(at::equal(run.model().parameters(), expected.model().parameters()));
}

// The gradient of the mean of (w x - 3 x)^2 is 2 (w - 3) mean(x^2), and mean(x^2) is 7.5.
TEST(Task, TrainsByItsOwnLoss) {
  const ScratchFolder folder;
  Settings settings = line_settings(folder.path());
  settings.momentum = 0;
  settings.weight_decay = 0;
  Line line;
  daso::Run run(settings, line.task());
  const Summary summary = train_alone(run);
  const double left = std::pow(1 - 0.01 * 2 * 7.5, 5);  // of the distance to 3
  EXPECT_NEAR(line.weight(), 3 * (1 - left), 1e-5);
  EXPECT_NEAR(summary.test_loss, std::pow(3 * left, 2) * 7.5, 1e-4);
  EXPECT_TRUE(std::isnan(summary.test_accuracy));
}

TEST(Task, WithoutAnAccuracyHasNoneInItsFiles) {
  const ScratchFolder folder;
  Settings settings = line_settings(folder.path());
  settings.momentum = 0;  // which overshoots
  settings.keep_best = true;
  Line line;
  daso::Run run(settings, line.task());
  World world = World::alone();
  EXPECT_EQ(daso::train(world, run, {.json = true}), 0);
  for (const char* file : {"summary.json", "metrics.jsonl"}) {
    const std::string text = bytes_of(folder.path() / file);
    EXPECT_THAT(text, HasSubstr("test_loss")) << file;
    EXPECT_THAT(text, Not(HasSubstr("test_accuracy"))) << file;
  }
  // The loss falls with each epoch, so the best model is the last.
  const State best = read_model(folder.path() / "best.safetensors");
  EXPECT_EQ(best.at("weight").item<double>(), line.weight());
}

TEST(Task, IsEvaluatedByItsOwnScore) {
  const ScratchFolder folder;
  Line line;
  Task task = line.task();
  // Means of batches; the test part of one rank is one batch of four.
  task.score = [](const Batch& batch) {
    return Score{.loss = batch.labels.mean().item<double>(), .accuracy = 0.25};
  };
  daso::Run run(line_settings(folder.path()), task);
  const Summary summary = train_alone(run);
  EXPECT_DOUBLE_EQ(summary.test_loss, 7.5);  // the mean of 3, 6, 9 and 12
  EXPECT_DOUBLE_EQ(summary.test_accuracy, 0.25);
}

// Two ranks have three and two of the examples: the mean of all is not that of their means.
TEST(Task, CountsEveryExampleOnceInItsScore) {
  const ScratchFolder folder;
  const at::Tensor five = at::arange(5, at::kFloat).reshape({5, 1});
  run_ranks({.ranks = 2}, [&](World& world) {
    Line line;
    Task task = line.task();
    task.test = tensors(five, five);
    task.score = [](const Batch& batch) {
      return Score{.loss = batch.labels.mean().item<double>(),
                   .accuracy = std::numeric_limits<double>::quiet_NaN()};
    };
    Settings settings = line_settings(folder.path());
    settings.batch_size = 2;
    daso::Run run(settings, task);
    Session session(world, run);
    EXPECT_DOUBLE_EQ(session.train(kNobodyLooks, {}).test_loss, 2);  // the mean of 0 ... 4
  });
}

// A step of the rate against the gradient's sign.
class SignDescent : public MomentOptimizer {
 public:
  explicit SignDescent(FlatModel& model) : MomentOptimizer(model, "sign") {}
  void step(double learning_rate) override {
    model_.parameters().sub_(model_.gradients().sign(), learning_rate);
    ++steps_;
  }
};

TEST(Task, TrainsByItsOwnOptimizer) {
  const ScratchFolder folder;
  Line line;
  Task task = line.task();
  task.optimizer = [](FlatModel& model) { return std::make_unique<SignDescent>(model); };
  daso::Run run(line_settings(folder.path()), task);
  train_alone(run);
  EXPECT_NEAR(line.weight(), 5 * 0.01, 1e-7);
}

TEST(Task, HasAnAverageOfItsOwnOptimizersParameters) {
  const ScratchFolder folder;
  Line line;
  Task task = line.task();
  task.optimizer = [](FlatModel& model) { return std::make_unique<SignDescent>(model); };
  Settings settings = line_settings(folder.path());
  settings.epochs = 1;
  settings.optimizer.ema = 0.9;
  daso::Run run(settings, task);
  train_alone(run);
  EXPECT_NEAR(run.optimizer().average()[0].item<double>(), 0.01, 1e-7);  // of one step
}

// 16 steps an epoch. A stop that is asked for early is agreed on in the first epoch.
TEST(Task, ThatIsStoppedGoesOnWithTheSameBits) {
  const ScratchFolder whole;
  const ScratchFolder parts;
  const auto settings_in = [](const fs::path& out) {
    Settings settings;
    settings.epochs = 2;
    settings.batch_size = 8;
    settings.accumulate = 1;
    settings.out = out;
    return settings;
  };
  daso::Run undisturbed(settings_in(whole.path()), dropout_task());
  train_alone(undisturbed);
  {
    daso::Run run(settings_in(parts.path()), dropout_task());
    World world = World::alone();
    Session session(world, run);
    session.train(kNobodyLooks, [] { return std::optional(SIGTERM); });
    ASSERT_GT(run.place().step, 0);
    ASSERT_LT(run.place().step, 32);
  }
  Settings rest = settings_in(parts.path());
  rest.resume = true;
  daso::Run resumed(rest, dropout_task());
  at::rand({7});  // what else is drawn in the process does not count
  train_alone(resumed);
  EXPECT_TRUE(result_in(parts.path()) == result_in(whole.path()));
}

TEST(Task, StaysWhenItsSessionIsRebuiltForANewWorld) {
  const ScratchFolder whole;
  const ScratchFolder parts;
  Settings settings = own_settings(whole.path());
  daso::Run undisturbed(settings, same_as(small_run(whole.path())));
  train_alone(undisturbed);
  settings.out = parts.path();
  daso::Run run(settings, same_as(small_run(whole.path())));
  {
    World world = World::alone();
    Session session(world, run);
    session.train_epoch(kNobodyLooks, {});
    session.leave();
  }
  train_alone(run);
  EXPECT_TRUE(at::equal(run.model().parameters(), undisturbed.model().parameters()));
}

TEST(Task, LeavesTheProcessesRandomNumbersAlone) {
  const ScratchFolder folder;
  Task task = dropout_task();
  Settings settings;
  settings.epochs = 1;
  settings.out = folder.path();
  daso::Run run(settings, task);
  at::manual_seed(5);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(5);
  train_alone(run);
  EXPECT_TRUE(at::equal(at::rand({4}), expected));
}

TEST(Task, IsRefusedWithSettingsThatItLeavesWithoutEffect) {
  Line line;
  Task task = line.task();
  Settings settings = line_settings("out");
  settings.model = "mlp";
  expect_refused(settings, task, "--model changes nothing here: the task has a module of its own");
  settings = line_settings("out");
  settings.data = "idx:here";
  expect_refused(settings, task, "--data changes nothing here: the task has examples of its own");
  settings = line_settings("out");
  settings.label_smoothing = 0.1;
  expect_refused(settings, task, "--label-smoothing changes nothing here: the task has a loss");
  settings = line_settings("out");
  settings.weight_decay = 0.1;
  task.optimizer = [](FlatModel& model) { return std::make_unique<SignDescent>(model); };
  expect_refused(settings, task, "--weight-decay changes nothing here: the task has an optimizer");
}

TEST(Task, IsRefusedWhereAPartIsMissing) {
  const Settings settings = line_settings("out");
  Line line;
  Task task = line.task();
  task.test = nullptr;
  expect_refused(settings, task, "give both, or leave both to settings.data");
  task = line.task();
  task.module = {};
  expect_refused(settings, task, "needs a module of its own");
  task = line.task();
  task.module = std::make_shared<torch::nn::Module>("no forward");
  task.loss = nullptr;
  expect_refused(settings, task, "no forward() that takes one tensor, so the task needs a loss");
}

TEST(Task, IsRefusedWhereItsLossIsNotOneNumber) {
  const ScratchFolder folder;
  Line line;
  Task task = line.task();
  task.loss = [net = line.net](const Batch& batch) mutable { return net->forward(batch.inputs); };
  daso::Run run(line_settings(folder.path()), task);
  EXPECT_THROW(
      {
        try {
          train_alone(run);
        } catch (const ConfigError& error) {
          EXPECT_THAT(error.what(), HasSubstr("one number, the mean over its examples; this one "
                                              "has 4 numbers"));
          throw;
        }
      },
      ConfigError);
}

TEST(Task, IsRefusedWhereRanksHaveOtherExamples) {
  const ScratchFolder folder;
  run_ranks({.ranks = 2}, [&](World& world) {
    Line line;
    Task task = line.task();
    task.train = tensors(line.x + world.rank(), line.x);
    Settings settings = line_settings(folder.path());
    settings.batch_size = 2;
    daso::Run run(settings, task);
    try {
      const Session session(world, run);
      ADD_FAILURE() << "rank " << world.rank() << " trains";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the task's examples are not the same on all ranks"));
    }
  });
}

}  // namespace
}  // namespace daso::test
