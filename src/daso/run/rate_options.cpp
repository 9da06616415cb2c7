// SPDX-License-Identifier: Apache-2.0
// The part of Settings that becomes the learning rate.
#include <algorithm>
#include <array>
#include <cmath>

#include "daso/base/error.h"
#include "daso/run/settings.h"

namespace daso {
namespace {

bool is_plateau(RateKind kind) { return kind == RateKind::kPlateau; }
bool is_polynomial(RateKind kind) { return kind == RateKind::kPolynomial; }
bool is_step(RateKind kind) { return kind == RateKind::kStep; }

// A flag that only some schedules of the rate use.
struct RateFlag {
  const char* name;
  const char* users;
  bool (*used_by)(RateKind kind);
  bool (*given)(const Settings& options);
};

constexpr std::array<RateFlag, 6> kRateFlags = {{
    {"lr-end", "cosine and polynomial",
     [](RateKind kind) { return kind == RateKind::kCosine || is_polynomial(kind); },
     [](const Settings& o) { return o.lr_end.has_value(); }},
    {"lr-power", "polynomial", is_polynomial,
     [](const Settings& o) { return o.lr_power.has_value(); }},
    {"lr-gamma", "step and plateau",
     [](RateKind kind) { return is_step(kind) || is_plateau(kind); },
     [](const Settings& o) { return o.lr_gamma.has_value(); }},
    {"lr-steps", "step", is_step, [](const Settings& o) { return !o.lr_steps.empty(); }},
    {"lr-patience", "plateau", is_plateau,
     [](const Settings& o) { return o.lr_patience.has_value(); }},
    {"lr-threshold", "plateau", is_plateau,
     [](const Settings& o) { return o.lr_threshold.has_value(); }},
}};

// An option of one schedule of the rate that another would ignore is a mistake.
void refuse_idle(const Settings& options) {
  for (const RateFlag& flag : kRateFlags) {
    require(!flag.given(options) || flag.used_by(options.lr_schedule),
            "--{} changes nothing here: it is for --lr-schedule {}", flag.name, flag.users);
  }
}

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

std::vector<std::string> idle_rate_flags(RateKind kind) {
  std::vector<std::string> names;
  for (const RateFlag& flag : kRateFlags) {
    if (!flag.used_by(kind)) names.emplace_back(flag.name);
  }
  return names;
}

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
  refuse_idle(options);
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
          .rate = rate_of(rate_options(options, ranks, batches))};
}

void resolve_rate(Settings& options, int ranks, std::int64_t batches) {
  const LearningRateOptions rate = rate_options(options, ranks, batches);
  options.lr = rate.peak;
  options.base_lr.reset();
  if (rate.start > 0 && rate.warmup_steps > 0) options.lr_start = rate.start;
  options.lr_warmup_epochs = options.lr_warmup_epochs.value_or(1);
  const bool plateau = rate.kind == RateKind::kPlateau;
  const bool polynomial = rate.kind == RateKind::kPolynomial;
  if (rate.kind == RateKind::kCosine || polynomial) options.lr_end = rate.end;
  if (polynomial) options.lr_power = rate.power;
  if (rate.kind == RateKind::kStep || plateau) options.lr_gamma = rate.gamma;
  if (!plateau) return;
  options.lr_patience = rate.stall.patience;
  options.lr_threshold = rate.stall.threshold;
}

}  // namespace daso
