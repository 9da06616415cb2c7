// SPDX-License-Identifier: Apache-2.0
#include "daso/run/settings.h"

#include <array>
#include <charconv>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/nets/make_network.h"
#include "daso/run/settings_table.h"

namespace daso {
namespace {

struct UnitName {
  const char* name;
  Every::Unit unit;
};
constexpr std::array kUnits = {UnitName{"steps", Every::Unit::kSteps},
                               UnitName{"epochs", Every::Unit::kEpochs},
                               UnitName{"minutes", Every::Unit::kMinutes}};

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
  for (const Setting& one : settings_table()) {
    if (one.check) one.check(options);
  }
  require(!options.lr || !options.base_lr,
          "--lr is the rate itself, --base-lr the rate for 256 samples: give one of them");
  require(!options.lr_warmup_epochs ||
              (*options.lr_warmup_epochs >= 0 && *options.lr_warmup_epochs <= options.epochs),
          "--lr-warmup-epochs must be in 0 ... {}, as there are --epochs {}, got {}",
          options.epochs, options.epochs, options.lr_warmup_epochs.value_or(0));
  require(options.init_skip.empty() || !options.init.empty(),
          "--init-skip says what is not taken from the file of --init: give --init as well");
  refuse_idle(options, "model");
  check_sizes(transformer_sizes(options));
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

OptimizerOptions optimizer_options(const Settings& options) {
  refuse_idle(options, "optimizer");
  OptimizerOptions result = options.optimizer;
  result.name = optimizer_name(options);
  const bool has_moments = result.name == "adamw" || result.name == "lamb";
  result.weight_decay = options.weight_decay.value_or(has_moments ? 0.01 : 5e-4);
  result.momentum = options.momentum.value_or(0.9);
  result.trust = options.trust.value_or(result.trust);
  require(!result.nesterov || result.momentum > 0, "--nesterov needs a --momentum above 0");
  require(result.weight_decay > 0 || (result.no_decay.empty() && result.decay_all),
          "--no-decay and --no-decay-norm-bias change nothing with --weight-decay 0");
  return result;
}

Settings resolved(const Settings& options, const RunPlan& run_plan, const Topology& topology) {
  const int ranks = ranks_of_a_model(options, topology);
  Resolution resolution{.rate = rate_options(options, ranks, run_plan.batches),
                        .optimizer = optimizer_options(options),
                        .transformer = transformer_sizes(options)};
  if (traits_of(options.strategy).cycles) {
    resolution.strategy = strategy_options(options, run_plan, topology.nodes());
  }
  Settings all = options;
  resolve(all, resolution);
  return all;
}

}  // namespace daso
