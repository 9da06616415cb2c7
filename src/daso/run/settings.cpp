// SPDX-License-Identifier: Apache-2.0
#include "daso/run/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/nets/make_network.h"

namespace daso {
namespace {

struct UnitName {
  const char* name;
  Every::Unit unit;
};
constexpr std::array kUnits = {UnitName{"steps", Every::Unit::kSteps},
                               UnitName{"epochs", Every::Unit::kEpochs},
                               UnitName{"minutes", Every::Unit::kMinutes}};

bool has_moments(const std::string& optimizer) {
  return optimizer == "adamw" || optimizer == "lamb";
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

void validate(const Settings& options) {
  const auto at_least = [](const char* flag, auto value, auto least) {
    require(value >= least, "{} must be at least {}, got {}", flag, least, value);
  };
  at_least("--epochs", options.epochs, 1);
  at_least("--batch-size", options.batch_size, 1);
  at_least("--accumulate", options.accumulate, 1);
  const auto threads = [](const char* flag, int value) {
    require(value >= 1 && value <= kMostThreads, "{} must be in 1 ... {}, got {}", flag,
            kMostThreads, value);
  };
  threads("--threads", options.threads);
  threads("--loader-threads", options.loader_threads);
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
  require(options.model == "transformer" || !(options.layers || options.embedding || options.heads),
          "--layers, --embedding or --heads changes nothing here: it is for --model transformer");
  if (options.model == "transformer") check_sizes(transformer_sizes(options));
  rate_options(options, 1, 1);  // whatever the number of ranks and steps
  optimizer_options(options);
  validate_strategy(options);
}

std::string optimizer_name(const Settings& options) {
  return options.optimizer.name.empty() ? usual_optimizer(options.model) : options.optimizer.name;
}

TransformerSizes transformer_sizes(const Settings& options) {
  const TransformerSizes usual;
  return {.layers = options.layers.value_or(usual.layers),
          .embedding = options.embedding.value_or(usual.embedding),
          .heads = options.heads.value_or(usual.heads)};
}

std::vector<std::string> idle_optimizer_flags(const std::string& optimizer) {
  std::vector<std::string> names;
  if (has_moments(optimizer)) names.emplace_back("momentum");
  if (optimizer != "lars") names.emplace_back("trust");
  if (optimizer != "sgd") names.emplace_back("nesterov");
  if (optimizer == "lars" || optimizer == "lamb") names.emplace_back("no-decay-norm-bias");
  return names;
}

OptimizerOptions optimizer_options(const Settings& options) {
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
  require(result.momentum >= 0 && result.momentum < 1,
          "--momentum must be in 0 ... below 1, got {}", result.momentum);
  require(!result.nesterov || result.name == "sgd",
          "--nesterov changes nothing here: it is for --optimizer sgd");
  require(!result.nesterov || result.momentum > 0, "--nesterov needs a --momentum above 0");
  require(result.decay_all || !(lars || result.name == "lamb"),
          "--no-decay-norm-bias changes nothing here: {} never decays norms and biases",
          result.name);
  require(result.weight_decay > 0 || (result.no_decay.empty() && result.decay_all),
          "--no-decay and --no-decay-norm-bias change nothing with --weight-decay 0");
  return result;
}

Settings resolved(const Settings& options, const RunPlan& run_plan, const Topology& topology) {
  Settings all = options;
  resolve_rate(all, ranks_of_a_model(options, topology), run_plan.batches);
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
  const StrategyTraits& traits = traits_of(options.strategy);
  if (!traits.cycles) return all;
  const StrategyOptions strategy = strategy_options(options, run_plan, topology.nodes());
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
  if (!traits.merges_late) return all;
  all.wait = strategy.schedule.cadence.wait;
  all.merge = strategy.exchange.merge;
  all.wire = strategy.exchange.wire;
  return all;
}

}  // namespace daso
