// SPDX-License-Identifier: Apache-2.0
#include "cli/train_flags.h"

#include <fmt/ranges.h>

#include <array>
#include <functional>

#include "cli/flags.h"
#include "cli/numbers.h"
#include "daso/base/error.h"
#include "daso/nets/make_network.h"

namespace daso::cli {
namespace {

constexpr double kMegabyte = 1 << 20;

constexpr std::array kAugments = {std::pair{"none", Augment::kNone},
                                  std::pair{"crop", Augment::kCrop},
                                  std::pair{"crop+flip", Augment::kCropFlip},
                                  std::pair{"resized-crop+flip", Augment::kResizedCropFlip}};

std::vector<std::string> augment_names() {
  std::vector<std::string> names;
  names.reserve(kAugments.size());
  for (const auto& [name, augment] : kAugments) names.emplace_back(name);
  return names;
}

Augment augment_of(const std::string& name) {
  for (const auto& [known, augment] : kAugments) {
    if (name == known) return augment;
  }
  throw ConfigError(fmt::format("there is no augmentation '{}'", name));
}

std::string name_of(Augment augment) {
  for (const auto& [known, value] : kAugments) {
    if (augment == value) return known;
  }
  return "";
}

Uneven uneven_of(const std::string& name) { return name == "drop" ? Uneven::kDrop : Uneven::kWrap; }

Precision precision_of(const std::string& name) { return find_precision(name).value(); }

void add_data_flags(CLI::App& app, Settings& o) {
  Flags flags(app);
  app.add_option("--data", o.data, join(data_kinds(), ", "))->capture_default_str();
  app.add_option("--model", o.model, join(network_names(), ", "))->capture_default_str();
  flags.count("--layers", "Of --model transformer (2)", o.layers, 1);
  flags.count("--embedding", "Of --model transformer: numbers for a token (128)", o.embedding, 1);
  flags.count("--heads", "Of --model transformer, in each layer (4)", o.heads, 1);
  flags
      .parsed("--dropout", "Of --model transformer and vit-tiny: chance of a value to be left out",
              o.dropout, parse_number)
      ->default_str("0");
  app.add_option("--init", o.init, "Parameters to start from, a safetensors file");
  app.add_option_function<std::string>(
         "--freeze", [&o](const std::string& text) { o.freeze = split(text, ','); },
         "Parameters that stay as they are, by the beginnings of their names")
      ->type_name("NAME,...");
  flags.count("--epochs", "Passes over the data", o.epochs, 1)
      ->default_str(std::to_string(o.epochs));
  add_batch_flags(app, o);
  flags.choice("--augment", o.augment, augment_names(), augment_of)
      ->default_str(name_of(o.augment));
  app.add_flag("--skip-bad-images", o.skip_bad_images,
               "Of images:DIR: the next image of its class replaces a damaged one");
  flags.choice("--uneven", o.uneven, {"drop", "wrap"}, uneven_of)->default_str("drop");
  flags
      .parsed("--seed", "Of parameters, shuffles, dropout and random rounding", o.seed, parse_seed)
      ->default_str(std::to_string(o.seed));
  flags.count("--threads", "Of a rank's arithmetic, up to 1024", o.threads, 1, kMostThreads)
      ->default_str(std::to_string(o.threads));
  flags
      .count("--loader-threads", "That prepare a rank's batches, up to 1024", o.loader_threads, 1,
             kMostThreads)
      ->default_str(std::to_string(o.loader_threads));
}

std::vector<double> numbers_of(const std::string& flag, const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& word : split(text, ',')) numbers.push_back(parse_number(flag, word));
  return numbers;
}

void add_optimizer_flags(CLI::App& app, Settings& o) {
  Flags flags(app);
  flags.choice("--optimizer", o.optimizer.name, optimizer_names(), std::identity())
      ->description(join(optimizer_names(), ", ") + " (sgd; adamw for transformer and vit-tiny)");
  flags.parsed("--momentum", "Of sgd and lars (0.9)", o.momentum, parse_number);
  app.add_flag("--nesterov", o.optimizer.nesterov, "Nesterov's momentum, of sgd");
  flags.parsed("--trust", "Of lars: its trust coefficient (0.001)", o.trust, parse_number);
  flags.parsed("--weight-decay", "(sgd and lars 0.0005, adamw and lamb 0.01)", o.weight_decay,
               parse_number);
  app.add_flag_callback(
      "--no-decay-norm-bias", [&o] { o.optimizer.decay_all = false; },
      "No weight decay for biases and norm layers");
  app.add_option_function<std::string>(
         "--no-decay", [&o](const std::string& text) { o.optimizer.no_decay = split(text, ','); },
         "Parameters without weight decay, by the beginnings of their names")
      ->type_name("NAME,...");
  flags.choice("--precision", o.precision, {"fp32", "bf16", "fp16"}, precision_of)
      ->default_str(std::string(name_of(o.precision)));
  app.add_flag("--sync-batchnorm", o.sync_batchnorm,
               "BatchNorm's statistics over all ranks of the node");
  flags.parsed("--clip-norm", "Largest norm of the gradient", o.clip_norm, parse_number);
  flags
      .parsed("--label-smoothing", "Part of a label that all classes share, in training",
              o.label_smoothing, parse_number)
      ->default_str("0");
  flags.parsed("--ema", "Average the parameters, with this decay, like 0.999", o.optimizer.ema,
               parse_number);
}

void add_exchange_flags(CLI::App& app, Settings& o) {
  Flags flags(app);
  flags.choice("--schedule", o.schedule, schedule_names(), schedule_kind_of);
  flags.count("--skip", "Steps from one start to the next", o.skip, 1);
  flags.count("--wait", "Steps from start to merge", o.wait, 1);
  flags.parsed("--alpha", "Of --schedule rate: the rate below which periods grow", o.alpha,
               parse_number);
  flags.count("--patience", "Of --schedule plateau", o.patience, 0);
  flags.parsed("--threshold", "Of --schedule plateau", o.threshold, parse_number);
  flags.count("--warmup-epochs", "Blocking epochs at the beginning", o.warmup_epochs, 0);
  flags.count("--cooldown-epochs", "Blocking epochs at the end", o.cooldown_epochs, 0);
  flags.choice("--merge", o.merge, {"corrected", "paper"}, find_merge_rule);
  flags.choice("--exchange", o.exchange, {"sharded", "rotating"}, find_exchange_kind);
  flags.choice("--wire", o.wire, wire_names(), find_wire);
  flags
      .parsed("--bucket-mb", "Gradients that travel together, MB", o.bucket_elements,
              [](const std::string& flag, const std::string& text) {
                const double elements = parse_number(flag, text) * kMegabyte / sizeof(float);
                require(elements >= 1, "{} must be above 0, got '{}'", flag, text);
                return static_cast<std::int64_t>(elements);
              })
      ->default_str(
          fmt::format("{}", static_cast<double>(o.bucket_elements) * sizeof(float) / kMegabyte));
}

void add_output_flags(CLI::App& app, Settings& o) {
  Flags flags(app);
  flags.parsed("--checkpoint-every", "5steps, 1epochs or 10minutes (only at the end)",
               o.checkpoint_every, parse_every);
  flags.count("--keep", "Newest checkpoints that stay", o.keep, 1)
      ->default_str(std::to_string(o.keep));
  flags.parsed("--trace", "Steps that trace.json holds, or none", o.trace, parse_trace)
      ->type_name("steps=A..B")
      ->default_str(fmt::format("steps={}..{}", o.trace->first, o.trace->end));
  app.add_flag("--histograms", o.histograms, "Of parameters, once an epoch, for TensorBoard");
  app.add_flag("--keep-best", o.keep_best, "Keep the model of the best epoch, best.safetensors");
  app.add_option_function<std::string>(
         "--resume",
         [&o](const std::string& text) {
           o.resume = true;
           o.resume_from = text;
         },
         "Go on from the newest checkpoint of --out, or from a checkpoint's folder")
      ->expected(0, 1)
      ->type_name("[DIR]")
      ->default_str("");
}

// Flags and their values, in the order in which they are put.
class Entries {
 public:
  template <typename T>
  void put(const char* flag, const T& value) {
    all_.emplace_back(flag, fmt::format("{}", value));
  }
  template <typename T>
  void put_if(const char* flag, const std::optional<T>& value) {
    if (value) put(flag, *value);
  }
  template <typename T>
  void put_name_if(const char* flag, const std::optional<T>& value) {
    if (value) put(flag, name_of(*value));
  }
  const Configuration& all() const { return all_; }

 private:
  Configuration all_;
};

void put_model(Entries& all, const Settings& o) {
  all.put("data", o.data);
  all.put("model", o.model);
  all.put_if("layers", o.layers);
  all.put_if("embedding", o.embedding);
  all.put_if("heads", o.heads);
  if (o.dropout > 0) all.put("dropout", o.dropout);
  if (!o.init.empty()) all.put("init", o.init);
  if (!o.freeze.empty()) all.put("freeze", join(o.freeze, ","));
}

void put_learning(Entries& all, const Settings& o) {
  all.put("epochs", o.epochs);
  all.put("batch-size", o.batch_size);
  all.put("accumulate", o.accumulate);
  all.put_if("lr", o.lr);
  all.put_if("base-lr", o.base_lr);
  all.put_if("lr-warmup-epochs", o.lr_warmup_epochs);
  all.put_if("lr-start", o.lr_start);
  all.put("lr-schedule", name_of(o.lr_schedule));
  all.put_if("lr-end", o.lr_end);
  all.put_if("lr-power", o.lr_power);
  if (!o.lr_steps.empty()) all.put("lr-steps", fmt::format("{}", fmt::join(o.lr_steps, ",")));
  all.put_if("lr-gamma", o.lr_gamma);
  all.put_if("lr-patience", o.lr_patience);
  all.put_if("lr-threshold", o.lr_threshold);
  if (!o.optimizer.name.empty()) all.put("optimizer", o.optimizer.name);
  all.put_if("momentum", o.momentum);
  all.put("nesterov", o.optimizer.nesterov);
  all.put_if("trust", o.trust);
  all.put_if("weight-decay", o.weight_decay);
  all.put("no-decay-norm-bias", !o.optimizer.decay_all);
  if (!o.optimizer.no_decay.empty()) all.put("no-decay", join(o.optimizer.no_decay, ","));
  all.put_if("clip-norm", o.clip_norm);
  if (o.label_smoothing > 0) all.put("label-smoothing", o.label_smoothing);
  all.put_if("ema", o.optimizer.ema);
  all.put("precision", name_of(o.precision));
  all.put("sync-batchnorm", o.sync_batchnorm);
}

void put_strategy(Entries& all, const Settings& o) {
  all.put("strategy", o.strategy);
  all.put("preset", o.preset);
  all.put_name_if("schedule", o.schedule);
  all.put_if("skip", o.skip);
  all.put_if("wait", o.wait);
  all.put_if("alpha", o.alpha);
  all.put_if("patience", o.patience);
  all.put_if("threshold", o.threshold);
  all.put_if("warmup-epochs", o.warmup_epochs);
  all.put_if("cooldown-epochs", o.cooldown_epochs);
  all.put_name_if("merge", o.merge);
  all.put_name_if("exchange", o.exchange);
  all.put_name_if("wire", o.wire);
  all.put("bucket-mb", static_cast<double>(o.bucket_elements) * sizeof(float) / kMegabyte);
}

}  // namespace

void add_batch_flags(CLI::App& app, Settings& o) {
  Flags flags(app);
  flags.count("--batch-size", "Examples per rank and backward", o.batch_size, 1)
      ->default_str(std::to_string(o.batch_size));
  flags.count("--accumulate", "Backwards per step", o.accumulate, 1)
      ->default_str(std::to_string(o.accumulate));
}

void add_rate_flags(CLI::App& app, Settings& o) {
  Flags flags(app);
  flags.parsed("--lr", "Peak of the learning rate (sgd 0.1, lars 1, adamw and lamb 0.001)", o.lr,
               parse_number);
  flags.parsed("--base-lr", "Instead: for 256 samples of the global batch, scaled linearly",
               o.base_lr, parse_number);
  flags.parsed("--lr-warmup-epochs", "Epochs in which the rate rises (1)", o.lr_warmup_epochs,
               parse_number);
  flags.parsed("--lr-start", "Where it begins to rise (0; with --base-lr there)", o.lr_start,
               parse_number);
  flags.choice("--lr-schedule", o.lr_schedule, rate_kind_names(), rate_kind_of)
      ->default_str(name_of(o.lr_schedule));
  flags.parsed("--lr-end", "Of cosine (0.01) and polynomial (0): the end, a part of the peak",
               o.lr_end, parse_number);
  flags.parsed("--lr-power", "Of polynomial (2)", o.lr_power, parse_number);
  flags.parsed("--lr-steps", "Of step: epochs after which the rate falls", o.lr_steps, numbers_of)
      ->type_name("EPOCH,...");
  flags.parsed("--lr-gamma", "Of step and plateau: the factor by which it falls (0.1)", o.lr_gamma,
               parse_number);
  flags.count("--lr-patience", "Of plateau: epochs without progress that are forgiven (2)",
              o.lr_patience, 0);
  flags.parsed("--lr-threshold", "Of plateau: fall of the training loss that is progress (0.01)",
               o.lr_threshold, parse_number);
}

void add_job_flags(CLI::App& app, Settings& options) {
  add_data_flags(app, options);
  add_rate_flags(app, options);
  add_optimizer_flags(app, options);
  add_exchange_flags(app, options);
  app.add_option("--out", options.out, "Folder for all output (runs/<time>)");
}

void add_train_flags(CLI::App& app, Settings& options) {
  Flags flags(app);
  flags.choice("--strategy", options.strategy, strategy_names(), std::identity())
      ->default_str(options.strategy);
  flags.choice("--preset", options.preset, {"default", "paper"}, std::identity())
      ->default_str(options.preset);
  add_job_flags(app, options);
  add_output_flags(app, options);
}

std::vector<std::string> replaced_keys(const CLI::App& app, const Settings& o) {
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  std::vector<std::string> keys;
  const auto add = [&](const std::vector<std::string>& more) {
    keys.insert(keys.end(), more.begin(), more.end());
  };
  if (given("--lr-schedule")) add(idle_rate_flags(o.lr_schedule));
  if (given("--base-lr")) add({"lr", "lr-start"});
  if (given("--lr")) add({"base-lr"});
  if (given("--optimizer")) add(idle_optimizer_flags(o.optimizer.name));
  if (given("--lr-warmup-epochs") && o.lr_warmup_epochs == 0.0) add({"lr-start"});
  if (given("--strategy")) add(idle_strategy_flags(o.strategy));
  if (given("--preset")) add(preset_flags());
  if (o.schedule) add(idle_schedule_flags(*o.schedule));
  // Each of these two implies the other where only one is given.
  if (o.exchange == ExchangeKind::kRotating) add({"wire"});
  if (o.wire && *o.wire != Wire::kFp32) add({"exchange"});
  return keys;
}

Configuration configuration_of(const Settings& o) {
  Entries all;
  put_model(all, o);
  put_learning(all, o);
  put_strategy(all, o);
  all.put("augment", name_of(o.augment));
  if (o.skip_bad_images) all.put("skip-bad-images", o.skip_bad_images);
  all.put("uneven", o.uneven == Uneven::kDrop ? "drop" : "wrap");
  all.put("seed", o.seed);
  all.put("threads", o.threads);
  all.put("loader-threads", o.loader_threads);
  if (o.checkpoint_every) all.put("checkpoint-every", text_of(*o.checkpoint_every));
  all.put("keep", o.keep);
  all.put("keep-best", o.keep_best);
  all.put("trace", o.trace ? fmt::format("steps={}..{}", o.trace->first, o.trace->end) : "none");
  all.put("histograms", o.histograms);
  return all.all();
}

std::string toml_of(const Configuration& configuration) {
  std::string text;
  for (const auto& [flag, value] : configuration) {
    const bool bare = value == "true" || value == "false" ||
                      value.find_first_not_of("0123456789.-+e") == std::string::npos;
    text +=
        bare ? fmt::format("{} = {}\n", flag, value) : fmt::format("{} = \"{}\"\n", flag, value);
  }
  return text;
}

}  // namespace daso::cli
