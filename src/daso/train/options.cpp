// SPDX-License-Identifier: Apache-2.0
#include "daso/train/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/model/make_network.h"

namespace daso {
namespace {

struct UnitName {
  const char* name;
  Every::Unit unit;
};
constexpr std::array kUnits = {UnitName{"steps", Every::Unit::kSteps},
                               UnitName{"epochs", Every::Unit::kEpochs},
                               UnitName{"minutes", Every::Unit::kMinutes}};

// An option of one strategy, schedule or model that another would ignore is a mistake.
void refuse_idle(const TrainOptions& options, ScheduleKind schedule) {
  const bool cycles = options.strategy == "daso" || options.strategy == "local";
  const auto belongs = [&](bool given, const char* flag, bool used, const char* where) {
    require(!given || used, "{} changes nothing here: it is for {}", flag, where);
  };
  belongs(options.layers || options.embedding || options.heads, "--layers, --embedding or --heads",
          options.model == "transformer", "--model transformer");
  belongs(options.sync_batchnorm, "--sync-batchnorm", options.strategy != "none",
          "strategies whose ranks train one model");
  belongs(options.preset != "default", "--preset", cycles, "--strategy daso and local");
  belongs(options.schedule.has_value(), "--schedule", cycles, "--strategy daso and local");
  belongs(options.skip.has_value(), "--skip", cycles, "--strategy daso and local");
  belongs(options.wait.has_value(), "--wait", options.strategy == "daso", "--strategy daso");
  belongs(options.merge.has_value(), "--merge", options.strategy == "daso", "--strategy daso");
  belongs(options.wire.has_value(), "--wire", options.strategy == "daso", "--strategy daso");
  belongs(options.exchange.has_value(), "--exchange", cycles, "--strategy daso and local");
  belongs(options.warmup_epochs.has_value(), "--warmup-epochs", cycles,
          "--strategy daso and local");
  belongs(options.cooldown_epochs.has_value(), "--cooldown-epochs", cycles,
          "--strategy daso and local");
  belongs(options.alpha.has_value(), "--alpha", cycles && schedule == ScheduleKind::kRate,
          "--schedule rate");
  belongs(options.patience.has_value(), "--patience", cycles && schedule == ScheduleKind::kPlateau,
          "--schedule plateau");
  belongs(options.threshold.has_value(), "--threshold",
          cycles && schedule == ScheduleKind::kPlateau, "--schedule plateau");
}

bool has_moments(const std::string& optimizer) {
  return optimizer == "adamw" || optimizer == "lamb";
}

// The preset with what was asked for in its place.
Preset preset_of(const TrainOptions& options, int nodes) {
  Preset preset = options.preset == "paper" ? paper_preset() : default_preset(nodes);
  preset.schedule = options.schedule.value_or(preset.schedule);
  refuse_idle(options, preset.schedule);
  // The preset's wait may be longer than a skip that was asked for.
  preset.cadence.skip = options.skip.value_or(preset.cadence.skip);
  preset.cadence.wait = options.wait.value_or(std::min(preset.cadence.wait, preset.cadence.skip));
  if (options.warmup_epochs) preset.warmup_epochs = options.warmup_epochs;
  preset.cooldown_epochs = options.cooldown_epochs.value_or(preset.cooldown_epochs);
  preset.exchange.merge = options.merge.value_or(preset.exchange.merge);
  preset.exchange.kind = options.exchange.value_or(preset.exchange.kind);
  // A lossy wire implies sharded, and rotating implies fp32, unless both were asked for.
  if (options.wire) {
    preset.exchange.wire = *options.wire;
    if (*options.wire != Wire::kFp32 && !options.exchange) {
      preset.exchange.kind = ExchangeKind::kSharded;
    }
  } else if (preset.exchange.kind == ExchangeKind::kRotating) {
    preset.exchange.wire = Wire::kFp32;
  }
  return preset;
}

}  // namespace

Every parse_every(const std::string& flag, const std::string& text) {
  Every every;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), every.number);
  const std::string unit(rest, text.data() + text.size());
  for (const UnitName& known : kUnits) {
    if (error != std::errc() || every.number < 1) break;
    if (unit != known.name) continue;
    every.unit = known.unit;
    return every;
  }
  throw ConfigError(fmt::format(
      "{} takes a whole number above 0 and a unit, like 5steps, 1epochs or 10minutes; got '{}'",
      flag, text));
}

std::string text_of(const Every& every) {
  for (const UnitName& known : kUnits) {
    if (known.unit == every.unit) return fmt::format("{}{}", every.number, known.name);
  }
  return "";
}

std::optional<StepRange> parse_trace(const std::string& flag, const std::string& text) {
  if (text == "none") return std::nullopt;
  constexpr std::string_view kBegin = "steps=";
  const std::size_t dots = text.find("..");
  if (text.starts_with(kBegin) && dots != std::string::npos) {
    const auto first = parse_integer(text.substr(kBegin.size(), dots - kBegin.size()));
    const auto end = parse_integer(text.substr(dots + 2));
    if (first && end && *first >= 0 && *end > *first) return StepRange{*first, *end};
  }
  throw ConfigError(
      fmt::format("{} takes a range of steps, like steps=100..200, or none; got '{}'", flag, text));
}

void validate(const TrainOptions& options) {
  const auto at_least = [](const char* flag, auto value, auto least) {
    require(value >= least, "{} must be at least {}, got {}", flag, least, value);
  };
  at_least("--epochs", options.epochs, 1);
  at_least("--batch-size", options.batch_size, 1);
  at_least("--accumulate", options.accumulate, 1);
  at_least("--threads", options.threads, 1);
  at_least("--loader-threads", options.loader_threads, 1);
  at_least("--keep", options.keep, 1);
  const auto positive = [](const char* flag, const std::optional<double>& value) {
    require(!value || (std::isfinite(*value) && *value > 0), "{} must be above 0, got {}", flag,
            value.value_or(0));
  };
  positive("--lr", options.lr);
  positive("--base-lr", options.base_lr);
  positive("--clip-norm", options.clip_norm);
  positive("--trust", options.trust);
  require(!options.lr || !options.base_lr,
          "--lr is the rate itself, --base-lr the rate for 256 samples: give one of them");
  require(
      !options.weight_decay || (std::isfinite(*options.weight_decay) && *options.weight_decay >= 0),
      "--weight-decay must be 0 or more, got {}", options.weight_decay.value_or(0));
  const std::optional<double>& ema = options.optimizer.ema;
  require(!ema || (*ema > 0 && *ema < 1), "--ema must be between 0 and 1, like 0.999, got {}",
          ema.value_or(0));
  require(options.label_smoothing >= 0 && options.label_smoothing < 1,
          "--label-smoothing must be in 0 ... below 1, got {}", options.label_smoothing);
  require(!options.lr_warmup_epochs ||
              (*options.lr_warmup_epochs >= 0 && *options.lr_warmup_epochs <= options.epochs),
          "--lr-warmup-epochs must be in 0 ... {}, as there are --epochs {}, got {}",
          options.epochs, options.epochs, options.lr_warmup_epochs.value_or(0));
  const auto known = [](const char* flag, const std::string& name,
                        const std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    throw ConfigError(fmt::format("{} '{}' is unknown; did you mean {}? There are {}", flag, name,
                                  nearest(name, names).value_or(names.front()), join(names, ", ")));
  };
  known("--strategy", options.strategy, strategy_names());
  known("--preset", options.preset, {"default", "paper"});
  known("--model", options.model, network_names());
  check_dropout(options.model, options.dropout);
  rate_options(options, 1, 1);  // whatever the number of ranks and steps
  optimizer_options(options);
  // Whatever the number of nodes.
  const Preset preset = preset_of(options, 1);
  validate(preset.exchange);
  validate(preset.cadence);
}

StrategyOptions strategy_options(const TrainOptions& options, const Course& course, int nodes) {
  const Preset preset = preset_of(options, nodes);
  StrategyOptions result = options_of(preset, course);
  result.name = options.strategy;
  result.exchange.seed = options.seed;
  result.bucket_elements = options.bucket_elements;
  result.finite_gradients = options.precision != Precision::kFp16;
  result.schedule.alpha = options.alpha.value_or(result.schedule.alpha);
  result.schedule.stall.patience = options.patience.value_or(result.schedule.stall.patience);
  result.schedule.stall.threshold = options.threshold.value_or(result.schedule.stall.threshold);
  return result;
}

std::string optimizer_name(const TrainOptions& options) {
  return options.optimizer.name.empty() ? usual_optimizer(options.model) : options.optimizer.name;
}

TransformerSizes transformer_sizes(const TrainOptions& options) {
  const TransformerSizes usual;
  return {.layers = options.layers.value_or(usual.layers),
          .embedding = options.embedding.value_or(usual.embedding),
          .heads = options.heads.value_or(usual.heads)};
}

OptimizerOptions optimizer_options(const TrainOptions& options) {
  OptimizerOptions result = options.optimizer;
  result.name = optimizer_name(options);
  const bool lars = result.name == "lars";
  const bool adam = has_moments(result.name);
  result.weight_decay = options.weight_decay.value_or(adam ? 0.01 : 5e-4);
  result.momentum = options.momentum.value_or(0.9);
  result.trust = options.trust.value_or(result.trust);
  require(!options.trust || lars, "--trust changes nothing here: it is for --optimizer lars");
  require(!options.momentum || !adam,
          "--momentum changes nothing here: it is for --optimizer sgd and lars");
  require(!result.nesterov || result.name == "sgd",
          "--nesterov changes nothing here: it is for --optimizer sgd");
  require(result.decay_all || !(lars || result.name == "lamb"),
          "--no-decay-norm-bias changes nothing here: {} never decays norms and biases",
          result.name);
  require(result.weight_decay > 0 || (result.no_decay.empty() && result.decay_all),
          "--no-decay and --no-decay-norm-bias change nothing with --weight-decay 0");
  return result;
}

TrainOptions resolved(const TrainOptions& options, const Course& course, const Topology& topology) {
  TrainOptions all = options;
  resolve_rate(all, topology.ranks(), course.batches);
  const OptimizerOptions optimizer = optimizer_options(options);
  all.optimizer.name = optimizer.name;
  all.weight_decay = optimizer.weight_decay;
  if (!has_moments(optimizer.name)) all.momentum = optimizer.momentum;
  if (optimizer.name == "lars") all.trust = optimizer.trust;
  if (options.model == "transformer") {
    const TransformerSizes sizes = transformer_sizes(options);
    all.layers = sizes.layers;
    all.embedding = sizes.embedding;
    all.heads = sizes.heads;
  }
  const bool daso = options.strategy == "daso";
  if (!daso && options.strategy != "local") return all;
  const StrategyOptions strategy = strategy_options(options, course, topology.nodes());
  all.schedule = strategy.schedule.kind;
  all.skip = strategy.schedule.cadence.skip;
  all.warmup_epochs = strategy.schedule.phases.warmup;
  all.cooldown_epochs = strategy.schedule.phases.cooldown;
  all.exchange = strategy.exchange.kind;
  if (strategy.schedule.kind == ScheduleKind::kRate) all.alpha = strategy.schedule.alpha;
  if (strategy.schedule.kind == ScheduleKind::kPlateau) {
    all.patience = strategy.schedule.stall.patience;
    all.threshold = strategy.schedule.stall.threshold;
  }
  if (!daso) return all;
  all.wait = strategy.schedule.cadence.wait;
  all.merge = strategy.exchange.merge;
  all.wire = strategy.exchange.wire;
  return all;
}

}  // namespace daso
