// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train_step.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>

#include "daso/base/error.h"
#include "daso/nets/gpu_pass.h"
#include "daso/nets/network.h"
#include "daso/run/loss.h"
#include "daso/tensor/device.h"

namespace daso {
namespace {

// Steps before the capture: libraries make their workspaces in the first, and try algorithms.
constexpr int kWarmup = 3;

at::ScalarType type_of(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return at::kBFloat16;
    case Precision::kFp16:
      return at::kHalf;
    case Precision::kFp32:
      break;
  }
  return at::kFloat;
}

// The part of a batch that one of several backward passes sees.
Batch part_of(const Batch& batch, int part, int parts) {
  const std::int64_t examples = batch.labels.size(0) / parts;
  return {batch.inputs.narrow(0, part * examples, examples),
          batch.labels.narrow(0, part * examples, examples)};
}

bool same_shape(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

// Convolutions on GPUs are fastest on images whose channels lie side by side.
at::MemoryFormat format_of(const at::Tensor& inputs) {
  return inputs.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

torch::nn::Module& module_of(const Task& task, Network& network) {
  if (task.module) return *task.module.get();
  return network;
}

}  // namespace

std::string why_no_graph(const Settings& settings, const Task& task) {
  if (settings.sync_batchnorm) return "--sync-batchnorm waits for other ranks in every layer";
  if (settings.dropout > 0) return "--dropout draws other numbers in every step";
  if ((task.module || task.loss) && !task.capturable) {
    return "a module or loss of one's own may compute otherwise from step to step; "
           "Task::capturable "
           "says that it does not";
  }
  if (task.module && settings.accumulate > 1) {
    return "a module of one's own may draw anew for each part of --accumulate";
  }
  return "";
}

struct TrainStep::Capture {
  Capture(torch::nn::Module& module, FlatModel& model, Precision precision)
      : pass(module, model, type_of(precision)),
        scale(at::ones({}, model.parameters().options())),
        loss(at::zeros({}, model.parameters().options().dtype(at::kDouble))) {}

  bool fits(const Batch& batch) const {
    return same_shape(batch.inputs, input.inputs) && same_shape(batch.labels, input.labels);
  }

  // Batches go into it on the stream; nobody waits.
  void take(const Batch& batch) const {
    if (!input.inputs.is_same(batch.inputs)) input.inputs.copy_(batch.inputs, true);
    if (!input.labels.is_same(batch.labels)) input.labels.copy_(batch.labels, true);
  }

  GpuPass pass;
  at::Tensor scale;  // what the gradients of each part are multiplied with
  double scale_now = 1;
  at::Tensor loss;                   // of the last step
  Batch input;                       // of the graph; undefined before the first batch
  int done = 0;                      // steps of its shape
  std::unique_ptr<StepGraph> graph;  // null: there is none yet
};

TrainStep::TrainStep(const Settings& settings, const Task& task, Network& network, FlatModel& model,
                     Timeline& timeline, bool tells)
    : settings_(settings),
      task_(task),
      network_(network),
      model_(model),
      timeline_(timeline),
      tells_(tells),
      device_(model.parameters().device()),
      arithmetic_(device_.type(), settings.deterministic) {
  if (device_.is_cpu()) return;
  // Both ways to compute round a transformer differently in half precision: who wants the same bits
  // with and without a graph gets the graph's.
  if (settings.graphs == Graphs::kOff && !settings.deterministic) return;
  const std::string reason = why_no_graph(settings, task);
  if (reason.empty()) {
    capture_ = std::make_unique<Capture>(module_of(task, network), model, settings.precision);
  } else if (settings.graphs != Graphs::kOff) {
    tell(reason);
  }
}

TrainStep::~TrainStep() = default;

at::Tensor TrainStep::operator()(const Batch& batch, std::int64_t step, const StepCalls& calls) {
  return capture_ ? all_at_once(batch, step, calls) : pass_by_pass(batch, step, calls);
}

std::optional<Batch> TrainStep::graph_input() const {
  if (!capture_ || !capture_->graph) return std::nullopt;
  return capture_->input;
}

at::Tensor TrainStep::pass_by_pass(const Batch& given, std::int64_t step, const StepCalls& calls) {
  const Batch batch = on_device(given);
  const int parts = settings_.accumulate;
  at::Tensor sum;
  model_.zero_gradients();
  for (int i = 0; i < parts; ++i) {
    if (i + 1 == parts && calls.begin_backward) calls.begin_backward();
    if (calls.draw) calls.draw(i);
    std::optional<Span> span(std::in_place, timeline_, Track::kTraining, "forward", step);
    const at::Tensor mean = loss_of(part_of(batch, i, parts));
    const at::Tensor loss = mean.detach().to(at::kDouble);
    sum = sum.defined() ? sum + loss : loss;
    span.emplace(timeline_, Track::kTraining, "backward", step);
    const at::Tensor share = mean / parts;
    (calls.loss_scale ? share * *calls.loss_scale : share).backward();
  }
  return sum / parts;
}

at::Tensor TrainStep::all_at_once(const Batch& batch, std::int64_t step, const StepCalls& calls) {
  if (calls.draw) calls.draw(0);
  {
    const Span span(timeline_, Track::kTraining, "forward and backward", step);
    const double scale = calls.loss_scale.value_or(1) / settings_.accumulate;
    if (scale != capture_->scale_now) capture_->scale.fill_(scale);
    capture_->scale_now = scale;
    if (!capture_->input.inputs.defined())
      capture_->input = {
          at::empty_like(batch.inputs, at::TensorOptions(device_), format_of(batch.inputs)),
          at::empty_like(batch.labels, device_)};
    if (!capture_->fits(batch) || !network_.is_training()) {
      compute(on_device(batch));
    } else {
      capture_->take(batch);
      const bool wanted = settings_.graphs != Graphs::kOff && !capture_->graph;
      if (wanted && capture_->done++ >= kWarmup && !try_capture()) {
        return pass_by_pass(batch, step, calls);
      }
      capture_->graph ? capture_->graph->replay() : compute(capture_->input);
    }
  }
  if (calls.begin_backward) calls.begin_backward();
  return capture_->loss.clone();
}

// What the graph holds. It reads and writes tensors that stay where they are.
void TrainStep::compute(const Batch& batch) {
  const int parts = settings_.accumulate;
  at::Tensor sum;
  for (int i = 0; i < parts; ++i) {
    at::Tensor mean;
    {
      const GpuPass::Use use(capture_->pass);
      mean = loss_of(part_of(batch, i, parts));
      capture_->pass.count_batch();
    }
    const at::Tensor loss = mean.detach().to(at::kDouble);
    sum = sum.defined() ? sum + loss : loss;
    capture_->pass.store(torch::autograd::grad({mean}, capture_->pass.inputs(), {capture_->scale},
                                               /*retain_graph=*/false, /*create_graph=*/false,
                                               /*allow_unused=*/true),
                         /*add=*/i > 0);
  }
  capture_->loss.copy_(parts == 1 ? sum : sum / parts);
}

bool TrainStep::try_capture() {
  std::unique_ptr<StepGraph> graph = device_module().make_graph();
  try {
    graph->capture([this] { compute(capture_->input); });
    capture_->graph = std::move(graph);
    return true;
  } catch (const std::exception& error) {
    tell(first_line(error.what()));
    capture_.reset();
    return false;
  }
}

void TrainStep::tell(const std::string& reason) const {
  if (!tells_) return;
  fmt::print(stderr, "daso: steps are computed kernel by kernel, not as a graph: {}\n", reason);
}

at::Tensor TrainStep::loss_of(const Batch& batch) {
  std::optional<Autocast> autocast(std::in_place, settings_.precision, device_.type());
  if (task_.loss) {
    const at::Tensor loss = task_.loss(batch);
    check_loss(loss);
    return loss.reshape({}).to(at::kFloat);
  }
  const at::Tensor scores = network_.forward(batch.inputs);
  autocast.reset();
  return training_loss(scores, batch.labels, settings_.label_smoothing);
}

Batch TrainStep::on_device(const Batch& batch) const {
  if (device_.is_cpu()) return batch;
  return {batch.inputs.to(device_, /*non_blocking=*/true).contiguous(format_of(batch.inputs)),
          batch.labels.to(device_, /*non_blocking=*/true)};
}

}  // namespace daso
