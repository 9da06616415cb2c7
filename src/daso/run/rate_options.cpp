// SPDX-License-Identifier: Apache-2.0
// The part of Settings that becomes the learning rate.
#include <algorithm>
#include <cmath>

#include "daso/base/error.h"
#include "daso/run/settings_table.h"

namespace daso {
namespace {

void check_steps(const Settings& options) {
  require(options.lr_schedule != RateKind::kStep || !options.lr_steps.empty(),
          "--lr-schedule step needs --lr-steps, the epochs after which the rate falls, like "
          "30,60,80");
  double before = 0;
  for (const double epoch : options.lr_steps) {
    require(epoch > before && epoch < options.epochs,
            "--lr-steps takes rising numbers of epochs between 0 and --epochs {}, got {} after {}",
            options.epochs, epoch, before);
    before = epoch;
  }
}

double usual_peak(const std::string& optimizer) {
  if (optimizer == "adamw" || optimizer == "lamb") return 1e-3;
  return optimizer == "lars" ? 1 : 0.1;
}

}  // namespace

int ranks_of_a_model(const Settings& options, const Topology& topology) {
  switch (traits_of(options.strategy).ties) {
    case Reach::kRank:
      return 1;
    case Reach::kNode:
      return static_cast<int>(topology.ranks_of(0).size());
    case Reach::kWorld:
      break;
  }
  return topology.ranks();
}

double peak_of(const Settings& options, int ranks) {
  if (!options.base_lr) return options.lr.value_or(usual_peak(optimizer_name(options)));
  constexpr double kBaseBatch = 256;
  return *options.base_lr * options.batch_size * options.accumulate * ranks / kBaseBatch;
}

LearningRateOptions rate_options(const Settings& options, int ranks, std::int64_t batches) {
  refuse_idle(options, "lr-schedule");
  check_steps(options);
  require(!options.lr_start || !options.base_lr,
          "--base-lr is where the warm-up begins already: leave out --lr-start");
  require(!options.lr_start || options.lr_warmup_epochs.value_or(1) > 0,
          "--lr-start changes nothing with --lr-warmup-epochs 0");
  const auto steps_of = [&](double epochs) {
    return std::int64_t{std::llround(epochs * static_cast<double>(batches))};
  };
  LearningRateOptions rate{.kind = options.lr_schedule, .peak = peak_of(options, ranks)};
  // Less than 256 samples are no reason to begin above the peak.
  rate.start = options.lr_start.value_or(std::min(rate.peak, options.base_lr.value_or(0)));
  rate.warmup_steps = steps_of(options.lr_warmup_epochs.value_or(1));
  rate.steps = options.epochs * batches;
  rate.end = options.lr_end.value_or(rate.kind == RateKind::kPolynomial ? 0 : rate.end);
  rate.power = options.lr_power.value_or(rate.power);
  rate.gamma = options.lr_gamma.value_or(rate.gamma);
  for (const double epoch : options.lr_steps) rate.drops.push_back(steps_of(epoch));
  rate.stall.patience = options.lr_patience.value_or(rate.stall.patience);
  rate.stall.threshold = options.lr_threshold.value_or(rate.stall.threshold);
  validate(rate);
  return rate;
}

RunPlan run_plan_of(const Settings& options, int ranks, std::int64_t batches) {
  return {.epochs = options.epochs,
          .batches = batches,
          .rate = rate_of(rate_options(options, ranks, batches)),
          .most_steps = options.max_steps ? *options.max_steps : kEndless};
}

void resolve_rate(Settings& options, int ranks, std::int64_t batches) {
  resolve(options, {.rate = rate_options(options, ranks, batches)}, SettingPart::kRate);
}

}  // namespace daso
