// SPDX-License-Identifier: Apache-2.0
#include "daso/run/run.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "daso/base/checksum.h"
#include "daso/base/error.h"
#include "daso/nets/layers.h"
#include "daso/nets/network.h"
#include "daso/optim/ema.h"
#include "daso/run/views/copy_receiver.h"
#include "daso/tensor/bf16.h"
#include "daso/tensor/names.h"

namespace daso {
namespace {

constexpr const char* kTrained = "trained";

Settings checked(const Settings& settings) {
  require(settings.precision != Precision::kBf16 || !bf16_traps(),
          "bf16 might end this process by an illegal instruction: the processor advertises AMX, "
          "which {}; call cap_instruction_sets() at the beginning of main, or set {}={}",
          find_amx() == Amx::kTrapped ? "does not work here" : "nobody has tried here", kCap,
          kCappedTo);
  return settings;
}

// LibTorch's modules draw from the generator of the process. While this lives it draws by a seed,
// for one thread at a time; then it goes on as if nothing had been drawn.
class SeededDraws {
 public:
  explicit SeededDraws(std::uint64_t seed)
      : lock_(mutex()), generator_(at::globalContext().defaultGenerator(at::kCPU)) {
    const std::lock_guard lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  SeededDraws(const SeededDraws&) = delete;
  SeededDraws& operator=(const SeededDraws&) = delete;
  ~SeededDraws() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(before_);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }

  const std::lock_guard<std::mutex> lock_;
  at::Generator generator_;
  at::Tensor before_;
};

bool is_empty(const Task& task) {
  return !task.own_loop && !task.module && !task.train && !task.test && !task.datasets.train &&
         !task.datasets.test && !task.loss && !task.score && !task.optimizer;
}

Datasets data_for(const Settings& settings, const Task& task) {
  if (task.own_loop || task.train || task.datasets.train) return task.datasets;
  return open_data(settings.data, {.skip_bad_images = settings.skip_bad_images});
}

std::shared_ptr<Network> named_network(const Settings& settings, const Dataset& data) {
  const InputShape shape = data.shape();
  const SeededDraws draws(settings.seed);
  return make_network({.name = settings.model,
                       .text = shape.kind == InputKind::kText,
                       .channels = shape.channels,
                       .height = shape.height,
                       .width = shape.width,
                       .classes = data.classes(),
                       .transformer = transformer_sizes(settings),
                       .dropout = settings.dropout});
}

// The module that has the parameters, with what the settings freeze of it.
std::shared_ptr<torch::nn::Module> module_for(const Settings& settings, const Task& task,
                                              const std::shared_ptr<Network>& network,
                                              at::Device device) {
  std::shared_ptr<torch::nn::Module> module = network;
  if (task.module) module = task.module.get();
  if (!device.is_cpu()) module->to(device);
  freeze(*module, settings.freeze);
  const std::vector<at::Tensor> all = module->parameters();
  require(settings.freeze.empty() ||
              std::any_of(all.begin(), all.end(),
                          [](const at::Tensor& one) { return one.requires_grad(); }),
          "--freeze {} leaves nothing of model '{}' to train; leave some of its parameters out",
          fmt::join(settings.freeze, ","), settings.model);
  return module;
}

std::unique_ptr<Optimizer> optimizer_for(const Settings& settings, const Task& task,
                                         FlatModel& model) {
  if (!task.optimizer) return make_optimizer(model, optimizer_options(settings));
  std::unique_ptr<Optimizer> own = task.optimizer(model);
  require(own != nullptr, "the optimizer of the task is null");
  const std::optional<double>& ema = settings.optimizer.ema;
  return ema ? std::make_unique<WithEma>(model, std::move(own), *ema) : std::move(own);
}

State copies_of(const State& tensors) {
  State copies;
  for (const auto& [name, tensor] : tensors) copies[name] = kept(tensor);
  return copies;
}

// The parameters that are not frozen, a checksum of each name. Flat tensors hold them side by side:
// with others frozen their numbers would belong to others, and their sizes might not tell.
at::Tensor trained_names(const FlatModel& model) {
  std::vector<std::int64_t> names;
  for (const FlatSpan& span : model.parameter_spans()) {
    names.push_back(static_cast<std::int64_t>(checksum_of(std::as_bytes(std::span(span.name)))));
  }
  return at::tensor(names, at::kLong);
}

}  // namespace

Run::Run(const Settings& settings, Task task, at::Device device)
    : task_(std::move(task)),
      settings_(checked(is_empty(task_) ? settings : settings_with(task_, settings))),
      data_(data_for(settings_, task_)),
      network_(task_.module ? network_of(task_) : named_network(settings_, *data_.train)),
      module_(module_for(settings_, task_, network_, device)),
      model_(module_),
      optimizer_(optimizer_for(settings_, task_, model_)),
      normalisation_(data_.train ? normalisation_of(data_.train) : Normalisation()) {
  if (settings_.precision == Precision::kFp16) scaler_.emplace();
  if (!device.is_cpu()) check_own_batch_norms(*module_);
}

Run::~Run() = default;

bool Run::is_own() const { return !is_empty(task_); }

ModelInput Run::input() const {
  if (!data_.train) return {};
  return input_of(*data_.train, normalisation_, transformer_sizes(settings_));
}

RunState Run::state() const {
  RunState state{.place = place_, .model = settings_.model, .strategy = settings_.strategy};
  // With `none` every rank trains a model of its own.
  State& trained = traits_of(settings_.strategy).ties == Reach::kRank ? state.own : state.common;
  add_section(trained, "model.", copies_of(model_.named_parameters()));
  add_section(trained, "optimizer.", optimizer_->state());
  if (scaler_) add_section(trained, "scaler.", scaler_->state());
  if (data_.train) add_section(state.common, "input.", state_of(input()));
  state.common[kTrained] = trained_names(model_);
  add_section(state.own, "model.", copies_of(model_.named_buffers()));
  add_section(state.own, "run.", state_of(tally_));
  if (task_.state) add_section(state.own, "loop.", task_.state());
  return state;
}

void Run::load(const RunState& state) {
  State all = state.common;
  all.insert(state.own.begin(), state.own.end());
  const auto trained = all.find(kTrained);  // older checkpoints have none
  require(trained == all.end() || at::equal(trained->second, trained_names(model_)),
          "other parameters were frozen");
  model_.load(section(all, "model."));
  optimizer_->load_state(section(all, "optimizer."));
  if (scaler_) scaler_->load_state(section(all, "scaler."));
  tally_ = tally_in(section(all, "run."));
  if (task_.load_state) task_.load_state(section(all, "loop."));
}

void Run::receive(std::unique_ptr<CopyReceiver> receiver) { received_ = std::move(receiver); }

void Run::remember(ViewRecord view) {
  constexpr std::size_t kMost = 16;  // more do not end before anybody has written one down
  if (!views_.empty() && views_.back().number == view.number) return;
  if (views_.size() == kMost) views_.erase(views_.begin());
  views_.push_back(std::move(view));
}

void Run::enter() {
  in_session_ = true;
  left_.reset();
}

void Run::leave(RunState state) {
  left_ = std::move(state);
  in_session_ = false;
}

}  // namespace daso
