// SPDX-License-Identifier: Apache-2.0
#include "daso/run/task.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "daso/base/error.h"
#include "daso/nets/network.h"
#include "daso/run/device_feed.h"
#include "daso/run/precision.h"
#include "daso/run/settings_table.h"

namespace daso {
namespace {

class TaskNetwork final : public Network {
 public:
  explicit TaskNetwork(TaskModule module) : module_(std::move(module)) {}

  at::Tensor forward(const at::Tensor& input) override {
    require(static_cast<bool>(module_.forward()),
            "the module has no forward() that takes one tensor: give the task a loss");
    return module_.forward()(input);
  }
  void train(bool on) override { module_.get()->train(on); }
  bool is_training() const noexcept override { return module_.get()->is_training(); }

 private:
  const TaskModule module_;
};

// Names of settings and what of the task stands in their place.
void refuse_given(const Settings& settings, const char* part,
                  std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const Setting& one = setting(name);
    require(!one.given(settings), "{} changes nothing here: the task has {} of its own", one.flag(),
            part);
  }
}

void check_parts(const Task& task) {
  require((task.train == nullptr) == (task.test == nullptr) &&
              (task.datasets.train == nullptr) == (task.datasets.test == nullptr),
          "a task has examples to train with and others to test with: give both, or leave both to "
          "settings.data");
  require(!task.train || !task.datasets.train,
          "a task has either examples or datasets: leave one of them out");
  require(!task.train || task.module,
          "settings.model names networks for images and texts: a task with examples of its own "
          "needs a module of its own");
  require(!task.train || task.test->size() >= 1, "there must be an example to test with at least");
  require(task.module || (!task.loss && !task.score),
          "a loss or score of one's own is computed by a module of one's own: the task has none");
  require(!task.own_loop || (task.module && !task.train && !task.datasets.train && !task.loss),
          "a loop of one's own brings batches and losses itself: give the task a module, and neither "
          "examples nor a loss");
  require(!task.module || task.module.forward() || task.loss || task.own_loop,
          "the module has no forward() that takes one tensor, so the task needs a loss");
}

double number_in(const at::Tensor& loss) {
  check_loss(loss);
  return loss.to(at::kDouble).item<double>();
}

Score score_of(const Task& task, const Batch& batch) {
  if (task.score) return task.score(batch);
  return {.loss = number_in(task.loss(batch)),
          .accuracy = std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace

Settings settings_with(const Task& task, const Settings& settings) {
  check_parts(task);
  validate(settings);
  Settings all = settings;
  if (task.module) {
    refuse_given(settings, "a module", {"model"});
    all.model = task.model;
    if (all.optimizer.name.empty()) all.optimizer.name = "sgd";
  }
  if (task.own_loop) {
    refuse_given(settings, "a loop",
                 {"data", "skip-bad-images", "augment", "loader-threads", "uneven",
                  "label-smoothing", "precision", "graphs", "sync-batchnorm", "device"});
    all.data = task.data;
  }
  if (task.train || task.datasets.train) {
    refuse_given(settings, "examples", {"data", "skip-bad-images"});
    all.data = task.data;
  }
  if (task.train) refuse_given(settings, "examples", {"augment"});
  if (task.loss) refuse_given(settings, "a loss", {"label-smoothing"});
  if (task.optimizer) {
    refuse_given(settings, "an optimizer",
                 {"optimizer", "momentum", "nesterov", "trust", "weight-decay",
                  "no-decay-norm-bias", "no-decay"});
    all.optimizer.name = "own";
  }
  return all;
}

std::shared_ptr<Network> network_of(const Task& task) {
  return std::make_shared<TaskNetwork>(task.module);
}

Score evaluate(const Task& task, DeviceFeed& feed, EvaluationLoader& own_part, Communicator& ranks,
               World& world) {
  const at::NoGradGuard no_grad;
  const GpuArithmetic arithmetic(feed.device().type());
  torch::nn::Module& module = *task.module.get();
  const bool was_training = module.is_training();
  module.eval();
  at::Tensor totals = at::zeros({3}, at::kDouble);  // loss, accuracy, examples
  own_part.start();
  feed.start(own_part, own_part.batches());
  for (std::int64_t i = 0; i < own_part.batches(); ++i) {
    const Batch batch = feed.next();
    const auto examples = static_cast<double>(batch.labels.size(0));
    const Score score = score_of(task, batch);
    totals += at::tensor({score.loss * examples, score.accuracy * examples, examples}, at::kDouble);
  }
  module.train(was_training);
  {
    const TimedSpan span(world.timeline(), Track::kScores, "scores", 0);
    totals = ranks.all_reduce(totals, Reduce::kSum).wait(world.limit());
  }
  const double examples = std::max(1.0, totals[2].item<double>());
  return {.loss = totals[0].item<double>() / examples,
          .accuracy = totals[1].item<double>() / examples};
}

void check_loss(const at::Tensor& loss) {
  require(loss.defined() && loss.numel() == 1,
          "the loss of a batch is one number, the mean over its examples; this one has {}",
          loss.defined() ? fmt::format("{} numbers", loss.numel()) : "none");
}

TrainingDraws::TrainingDraws(at::Device device)
    : generator_(at::globalContext().defaultGenerator(device)) {
  const std::lock_guard lock(generator_.mutex());
  before_ = generator_.get_state();
}

TrainingDraws::~TrainingDraws() {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(before_);
}

void TrainingDraws::draw_by(std::initializer_list<std::uint64_t> keys) {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_current_seed(RandomStream(keys).next());
}

}  // namespace daso
