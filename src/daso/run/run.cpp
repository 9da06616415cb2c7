// SPDX-License-Identifier: Apache-2.0
#include "daso/run/run.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "daso/base/checksum.h"
#include "daso/base/error.h"
#include "daso/nets/network.h"
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

std::shared_ptr<Network> network_for(const Settings& settings, const Dataset& data) {
  const InputShape shape = data.shape();
  const SeededDraws draws(settings.seed);
  auto network = make_network({.name = settings.model,
                               .text = shape.kind == InputKind::kText,
                               .channels = shape.channels,
                               .height = shape.height,
                               .width = shape.width,
                               .classes = data.classes(),
                               .transformer = transformer_sizes(settings),
                               .dropout = settings.dropout});
  freeze(*network, settings.freeze);
  const std::vector<at::Tensor> all = network->parameters();
  require(std::any_of(all.begin(), all.end(),
                      [](const at::Tensor& one) { return one.requires_grad(); }),
          "--freeze {} leaves nothing of model '{}' to train; leave some of its parameters out",
          fmt::join(settings.freeze, ","), settings.model);
  return network;
}

State copies_of(const State& tensors) {
  State copies;
  for (const auto& [name, tensor] : tensors) copies[name] = tensor.detach().clone();
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

Run::Run(const Settings& settings)
    : settings_(checked(settings)),
      data_(open_data(settings_.data, {.skip_bad_images = settings_.skip_bad_images})),
      network_(network_for(settings_, *data_.train)),
      model_(network_),
      optimizer_(make_optimizer(model_, optimizer_options(settings_))),
      normalisation_(normalisation_of(data_.train)) {
  if (settings_.precision == Precision::kFp16) scaler_.emplace();
}

Run::~Run() = default;

ModelInput Run::input() const {
  return input_of(*data_.train, normalisation_, transformer_sizes(settings_));
}

RunState Run::state() const {
  RunState state{.place = place_, .model = settings_.model, .strategy = settings_.strategy};
  // With `none` every rank trains a model of its own.
  State& trained = traits_of(settings_.strategy).ties == Reach::kRank ? state.own : state.common;
  add_section(trained, "model.", copies_of(model_.named_parameters()));
  add_section(trained, "optimizer.", optimizer_->state());
  if (scaler_) add_section(trained, "scaler.", scaler_->state());
  add_section(state.common, "input.", state_of(input()));
  state.common[kTrained] = trained_names(model_);
  add_section(state.own, "model.", copies_of(model_.named_buffers()));
  add_section(state.own, "run.", state_of(tally_));
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
