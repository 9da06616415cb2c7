// SPDX-License-Identifier: Apache-2.0
// Steps on a GPU: as a graph, kernel by kernel, and one after the other give the same numbers.
#include "daso/run/train_step.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "daso/base/error.h"
#include "daso/nets/network.h"
#include "daso/tensor/device.h"
#include "daso/tensor/lane.h"

namespace daso::test {
namespace {

constexpr int kSteps = 8;  // more than a graph needs to warm up
constexpr double kRate = 0.05;

const NetworkOptions kCnn{.name = "cnn", .height = 16, .width = 16, .classes = 10};
const NetworkOptions kResnet{.name = "resnet20", .height = 16, .width = 16, .classes = 10};
const NetworkOptions kTransformer{.name = "transformer",
                                  .text = true,
                                  .width = 64,
                                  .classes = 50,
                                  .transformer = {.layers = 2, .embedding = 64, .heads = 2}};

// Trains on noise that is drawn by the step, with plain SGD.
class Trainer {
 public:
  Trainer(const NetworkOptions& options, const Settings& settings, const Task& task = {})
      : options_(options), settings_(settings), task_(task) {
    at::manual_seed(3);
    network_ = task.module ? network_of(task_) : make_network(options);
    const std::shared_ptr<torch::nn::Module> module =
        task.module ? task_.module.get() : std::shared_ptr<torch::nn::Module>(network_);
    module->to(device_);
    module->train();
    model_.emplace(module);
    compute_.emplace(settings_, task_, *network_, *model_, timeline_, /*tells=*/true);
  }

  void go_on(int steps, int examples = 8) {
    for (int i = 0; i < steps; ++i, ++done_) {
      losses_.push_back((*compute_)(batch(examples), done_, {}).item<double>());
      model_->parameters().sub_(model_->gradients(), kRate);
    }
  }

  // Another one, from where the model is: it has no graph yet.
  void begin_anew() {
    compute_.reset();
    compute_.emplace(settings_, task_, *network_, *model_, timeline_, /*tells=*/true);
  }

  bool has_graph() const { return compute_->graph_input().has_value(); }
  const std::vector<double>& losses() const { return losses_; }
  at::Tensor parameters() const { return model_->parameters().cpu(); }
  at::Tensor buffers() const { return model_->buffers().cpu(); }
  std::map<std::string, at::Tensor> named_buffers() const { return model_->named_buffers(); }

 private:
  Batch batch(int examples) const {
    at::manual_seed(static_cast<std::uint64_t>(100 + done_));
    if (options_.text) {
      return {at::randint(options_.classes, {examples, options_.width}, at::kLong),
              at::randint(options_.classes, {examples, options_.width}, at::kLong)};
    }
    return {at::randn({examples, options_.channels, options_.height, options_.width}),
            at::randint(options_.classes, {examples}, at::kLong)};
  }

  const NetworkOptions options_;
  const Settings settings_;
  const Task task_;
  const at::Device device_{at::kCUDA, 0};
  std::shared_ptr<Network> network_;
  std::optional<FlatModel> model_;
  Timeline timeline_;
  std::optional<TrainStep> compute_;
  std::int64_t done_ = 0;
  std::vector<double> losses_;
};

// Under a stream that is not the default one.
class GpuTrainStep : public testing::Test {
 protected:
  void SetUp() override {
    try {
      stream_.emplace(find_device({.kind = DeviceChoice::Kind::kCuda}, 0).device);
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }

 private:
  std::optional<TrainingStream> stream_;
};

Settings settings_with(Graphs graphs, Precision precision = Precision::kFp32, int accumulate = 1) {
  return {
      .accumulate = accumulate, .precision = precision, .graphs = graphs, .deterministic = true};
}

void expect_same(const Trainer& one, const Trainer& other) {
  EXPECT_EQ(one.losses(), other.losses());
  EXPECT_TRUE(at::equal(one.parameters(), other.parameters()));
  EXPECT_TRUE(at::equal(one.buffers(), other.buffers()));
  for (const auto& [name, tensor] : one.named_buffers()) {
    EXPECT_TRUE(at::equal(tensor, other.named_buffers().at(name))) << name;
  }
}

TEST_F(GpuTrainStep, GraphsGiveTheSameBits) {
  for (const NetworkOptions& options : {kCnn, kResnet, kTransformer}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      for (const int accumulate : {1, 2}) {
        SCOPED_TRACE(
            fmt::format("{} {} accumulate {}", options.name, name_of(precision), accumulate));
        Trainer graph(options, settings_with(Graphs::kAuto, precision, accumulate));
        Trainer eager(options, settings_with(Graphs::kOff, precision, accumulate));
        graph.go_on(kSteps);
        eager.go_on(kSteps);
        EXPECT_TRUE(graph.has_graph());
        EXPECT_FALSE(eager.has_graph());
        expect_same(graph, eager);
      }
    }
  }
}

TEST_F(GpuTrainStep, ABatchOfAnotherShapeIsComputedBesideTheGraph) {
  Trainer graph(kResnet, settings_with(Graphs::kAuto, Precision::kBf16));
  Trainer eager(kResnet, settings_with(Graphs::kOff, Precision::kBf16));
  for (Trainer* one : {&graph, &eager}) {
    one->go_on(kSteps);
    one->go_on(1, /*examples=*/3);
    one->go_on(2);
  }
  expect_same(graph, eager);
}

TEST_F(GpuTrainStep, WhoGoesOnWarmsUpAnewAndGetsTheSameBits) {
  Trainer whole(kCnn, settings_with(Graphs::kAuto, Precision::kBf16));
  Trainer resumed(kCnn, settings_with(Graphs::kAuto, Precision::kBf16));
  whole.go_on(2 * kSteps);
  resumed.go_on(kSteps);
  resumed.begin_anew();
  EXPECT_FALSE(resumed.has_graph());
  resumed.go_on(kSteps);
  EXPECT_TRUE(resumed.has_graph());
  expect_same(whole, resumed);
}

// A loss that looks at its own value cannot be captured; it is computed as before, and the GPU is
// as good as new.
TEST_F(GpuTrainStep, ALossThatReadsItsValueIsComputedWithoutAGraph) {
  const auto task = [] {
    torch::nn::Linear net(3 * 16 * 16, 10);
    Task made;
    made.module = net;
    made.capturable = true;
    made.loss = [net](const Batch& batch) mutable {
      const at::Tensor loss =
          at::cross_entropy_loss(net(batch.inputs.flatten(1)).to(at::kFloat), batch.labels);
      return loss.item<double>() > 100 ? loss * 0 : loss;
    };
    return made;
  };
  testing::internal::CaptureStderr();
  at::manual_seed(1);
  Trainer graph(kCnn, settings_with(Graphs::kAuto), task());
  at::manual_seed(1);
  Trainer eager(kCnn, settings_with(Graphs::kOff), task());
  graph.go_on(kSteps);
  eager.go_on(kSteps);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("not as a graph: "), std::string::npos) << said;
  EXPECT_NE(said.find("capturing"), std::string::npos) << said;  // why: a value was read meanwhile
  EXPECT_FALSE(graph.has_graph());
  expect_same(graph, eager);
  EXPECT_NO_THROW(at::rand({4}, at::TensorOptions(at::kFloat).device(at::kCUDA)));
  Trainer after(kCnn, settings_with(Graphs::kAuto));
  after.go_on(kSteps);
  EXPECT_TRUE(after.has_graph());
}

}  // namespace
}  // namespace daso::test
