// SPDX-License-Identifier: Apache-2.0
#include "daso/run/settings_table.h"

#include <fmt/ranges.h>

#include <cmath>

#include "daso/nets/make_network.h"
#include "daso/run/setting_rows.h"

namespace daso {
namespace {

using namespace rows;

constexpr double kMegabyte = 1 << 20;
constexpr int kLastExitCode = 125;  // shells have a meaning for each that is above

constexpr std::array<std::pair<const char*, Augment>, 4> kAugments = {
    {{"none", Augment::kNone},
     {"crop", Augment::kCrop},
     {"crop+flip", Augment::kCropFlip},
     {"resized-crop+flip", Augment::kResizedCropFlip}}};
constexpr std::array<std::pair<const char*, Uneven>, 2> kUneven = {
    {{"drop", Uneven::kDrop}, {"wrap", Uneven::kWrap}}};

constexpr std::array<std::pair<const char*, Graphs>, 2> kGraphs = {
    {{"auto", Graphs::kAuto}, {"off", Graphs::kOff}}};

bool above_zero(const double& value) { return std::isfinite(value) && value > 0; }
bool zero_or_more(const double& value) { return std::isfinite(value) && value >= 0; }
bool below_one(const double& value) { return value >= 0 && value < 1; }

std::int64_t parse_bucket(const std::string& flag, const std::string& text) {
  constexpr double kMost = 1 << 20;  // more than any machine's memory
  const double megabytes = parse_number(flag, text);
  require(megabytes * kMegabyte >= sizeof(float) && megabytes <= kMost,
          "{} takes MB of 2^20 bytes, at least one element of 4 bytes and at most {}, got '{}'",
          flag, kMost, text);
  return static_cast<std::int64_t>(megabytes * kMegabyte / sizeof(float));
}

std::vector<double> parse_epochs(const std::string& flag, const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& word : split(text, ',')) numbers.push_back(parse_number(flag, word));
  return numbers;
}

using S = Settings;
using O = OptimizerOptions;
using R = const Resolution&;

void add(std::vector<Setting>& table, SettingPart part, std::initializer_list<Setting> rows) {
  for (Setting one : rows) {
    one.part = part;
    table.push_back(std::move(one));
  }
}

void add_model(std::vector<Setting>& table) {
  add(table, SettingPart::kStrategy,
      {one_of("strategy", &S::strategy, strategy_names()),
       one_of("preset", &S::preset, {"default", "paper"}).only(for_cycling())});
  add(table, SettingPart::kModel,
      {text("data", &S::data, "TEXT", join(data_kinds(), ", ")),
       known(text("model", &S::model, "TEXT", join(network_names(), ", ")), network_names()),
       count("layers", &S::layers, "Layers of --model transformer (2)", 1)
           .only(for_models({"transformer"}))
           .from([](R r) { return r.transformer.layers; }),
       count("embedding", &S::embedding, "Embedding size of --model transformer (128)", 1)
           .only(for_models({"transformer"}))
           .from([](R r) { return r.transformer.embedding; }),
       count("heads", &S::heads, "Attention heads per layer of --model transformer (4)", 1)
           .only(for_models({"transformer"}))
           .from([](R r) { return r.transformer.heads; }),
       number("dropout", &S::dropout, "Dropout probability, for transformer and vit-tiny")
           .only(for_dropout())
           .must("be in 0 ... below 1", below_one),
       text("init", &S::init, "TEXT", "Start from these parameters: a safetensors or PyTorch file"),
       names("init-skip", &S::init_skip, "Parameters not taken from --init, by name prefix"),
       names("freeze", &S::freeze, "Parameters that are not trained, by name prefix").in_state(),
       count("epochs", &S::epochs, "Passes over the data", 1),
       count("max-steps", &S::max_steps, "End the run after this many steps in total", 1)});
}

void add_data(std::vector<Setting>& table) {
  add(table, SettingPart::kBatch,
      {count("batch-size", &S::batch_size, "Examples per rank in each backward pass", 1),
       count("accumulate", &S::accumulate, "Backward passes per step", 1)});
  add(table, SettingPart::kData,
      {choice("augment", &S::augment, kAugments),
       toggle("skip-bad-images", &S::skip_bad_images,
              "images:DIR: replace a damaged image by the next one of its class"),
       choice("uneven", &S::uneven, kUneven),
       row("seed", &S::seed, "NUMBER", "Seed of parameters, shuffling, dropout and random rounding",
           parse_seed, kShown),
       row("device", &S::device, "NAME",
           "cpu, cuda (the GPUs, dealt to the ranks of a machine), cuda:N, auto",
           [](const std::string&, const std::string& value) { return parse_device(value); },
           [](const DeviceChoice& choice) { return text_of(choice); }),
       count("threads", &S::threads,
             "Threads for a rank's arithmetic, up to 1024; also OMP_NUM_THREADS", 1, kMostThreads),
       count("loader-threads", &S::loader_threads,
             "Threads that prepare a rank's batches, up to 1024", 1, kMostThreads)});
}

void add_rate(std::vector<Setting>& table) {
  add(table, SettingPart::kRate,
      {number("lr", &S::lr, "Peak learning rate (sgd 0.1, lars 1, adamw and lamb 0.001)")
           .must("be above 0", above_zero)
           .from([](R r) { return r.rate.peak; })
           .replacing({"base-lr"}),
       number("base-lr", &S::base_lr,
              "Instead: the peak per 256 samples of the global batch, scaled linearly")
           .must("be above 0", above_zero)
           .resolved_by([](Settings& s, R) { s.base_lr.reset(); })
           .replacing({"lr", "lr-start"}),
       number("lr-warmup-epochs", &S::lr_warmup_epochs, "Epochs over which the rate rises (1)")
           .resolved_by([](Settings& s, R) { s.lr_warmup_epochs = s.lr_warmup_epochs.value_or(1); })
           .replacing({"lr-start"}, [](const Settings& s) { return s.lr_warmup_epochs == 0.0; }),
       number("lr-start", &S::lr_start,
              "Rate at which the warm-up starts (0; with --base-lr that rate)")
           .resolved_by([](Settings& s, R r) {
             if (r.rate.start > 0 && r.rate.warmup_steps > 0) s.lr_start = r.rate.start;
           }),
       choice("lr-schedule", &S::lr_schedule, rate_kind_names(), rate_kind_of),
       number("lr-end", &S::lr_end,
              "cosine (0.01), polynomial (0): the final rate, as a fraction of the peak")
           .only(for_rates({"cosine", "polynomial"}))
           .from([](R r) { return r.rate.end; }),
       number("lr-power", &S::lr_power, "polynomial: its power (2)")
           .only(for_rates({"polynomial"}))
           .from([](R r) { return r.rate.power; }),
       row("lr-steps", &S::lr_steps, "EPOCH,...", "step: epochs after which the rate drops",
           parse_epochs,
           [](const std::vector<double>& epochs) {
             return fmt::format("{}", fmt::join(epochs, ","));
           })
           .only(for_rates({"step"})),
       number("lr-gamma", &S::lr_gamma, "step, plateau: the factor by which it drops (0.1)")
           .only(for_rates({"step", "plateau"}))
           .from([](R r) { return r.rate.gamma; }),
       count("lr-patience", &S::lr_patience,
             "plateau: epochs without progress that are tolerated (2)", 0)
           .only(for_rates({"plateau"}))
           .from([](R r) { return r.rate.stall.patience; }),
       number("lr-threshold", &S::lr_threshold,
              "plateau: relative fall of the training loss that counts as progress (0.01)")
           .only(for_rates({"plateau"}))
           .from([](R r) { return r.rate.stall.threshold; })});
}

void add_optimizer(std::vector<Setting>& table) {
  add(table, SettingPart::kOptimizer,
      {one_of("optimizer", &O::name, optimizer_names(),
              " (sgd; adamw for transformer and vit-tiny)")
           .from([](R r) { return r.optimizer.name; })
           .in_state(),
       number("momentum", &S::momentum, "Momentum of sgd and lars (0.9)")
           .only(for_optimizers({"sgd", "lars"}))
           .must("be in 0 ... below 1", below_one)
           .from([](R r) { return r.optimizer.momentum; }),
       toggle("nesterov", &O::nesterov, "Nesterov momentum for sgd").only(for_optimizers({"sgd"})),
       number("trust", &S::trust, "Trust coefficient of lars (0.001)")
           .only(for_optimizers({"lars"}))
           .must("be above 0", above_zero)
           .from([](R r) { return r.optimizer.trust; }),
       number("weight-decay", &S::weight_decay,
              "Weight decay (sgd and lars 0.0005, adamw and lamb 0.01)")
           .only(for_optimizers(optimizer_names()))
           .must("be 0 or more", zero_or_more)
           .from([](R r) { return r.optimizer.weight_decay; }),
       toggle("no-decay-norm-bias", &O::decay_all,
              "No weight decay for biases and norm layers, as lars and lamb do anyway",
              /*on=*/false)
           .only(for_optimizers({"sgd", "adamw"})),
       names("no-decay", &O::no_decay, "Parameters without weight decay, by name prefix"),
       choice("precision", &S::precision, {"fp32", "bf16", "fp16"},
              [](const std::string& name) { return find_precision(name).value(); })
           .in_state(),
       choice("graphs", &S::graphs, kGraphs,
              " (auto: steps on a GPU are a CUDA graph, where possible)"),
       toggle("deterministic", &S::deterministic,
              "The same bits in every run on GPUs too, with slower algorithms"),
       toggle("sync-batchnorm", &S::sync_batchnorm, "BatchNorm statistics over all ranks of a node")
           .only(for_one_model()),
       number("clip-norm", &S::clip_norm, "Clip the gradient to this norm")
           .must("be above 0", above_zero),
       number("label-smoothing", &S::label_smoothing, "Label smoothing of the training loss")
           .must("be in 0 ... below 1", below_one),
       number("ema", &O::ema, "Keep a moving average of the parameters with this decay, like 0.999")
           .must("be between 0 and 1, like 0.999",
                 [](const double& value) { return value > 0 && value < 1; })
           .in_state()});
}

void add_cadence(std::vector<Setting>& table) {
  add(table, SettingPart::kExchange,
      {choice("schedule", &S::schedule, schedule_names(), schedule_kind_of)
           .only(for_cycling())
           .in_presets()
           .from([](R r) { return r.strategy.schedule.kind; }),
       count("skip", &S::skip,
             "Steps from the start of one exchange to the next (4, fewer from 9 nodes on)", 1)
           .only(for_cycling())
           .in_presets()
           .from([](R r) { return r.strategy.schedule.cadence.skip; }),
       count("wait", &S::wait, "Steps from the start of an exchange to its merge (1)", 1)
           .only(for_late_merges())
           .in_presets()
           .from([](R r) { return r.strategy.schedule.cadence.wait; }),
       number("alpha", &S::alpha,
              "--schedule rate: learning rate below which the interval grows (the peak)")
           .only(for_cycling())
           .only(for_schedule(ScheduleKind::kRate))
           .in_presets()
           .from([](R r) { return r.strategy.schedule.alpha; }),
       count("patience", &S::patience,
             "--schedule plateau: epochs without progress that are tolerated (2)", 0)
           .only(for_cycling())
           .only(for_schedule(ScheduleKind::kPlateau))
           .in_presets()
           .from([](R r) { return r.strategy.schedule.stall.patience; }),
       number(
           "threshold", &S::threshold,
           "--schedule plateau: relative fall of the training loss that counts as progress (0.05)")
           .only(for_cycling())
           .only(for_schedule(ScheduleKind::kPlateau))
           .in_presets()
           .from([](R r) { return r.strategy.schedule.stall.threshold; }),
       count("warmup-epochs", &S::warmup_epochs,
             "Blocking epochs at the beginning (until the learning rate has peaked)", 0)
           .only(for_cycling())
           .in_presets()
           .from([](R r) { return r.strategy.schedule.phases.warmup; }),
       count("cooldown-epochs", &S::cooldown_epochs, "Blocking epochs at the end (0)", 0)
           .only(for_cycling())
           .in_presets()
           .from([](R r) { return r.strategy.schedule.phases.cooldown; })});
}

// Of --exchange and --wire each implies the other where only one is given.
void add_exchange(std::vector<Setting>& table) {
  add(table, SettingPart::kExchange,
      {choice("merge", &S::merge, {"corrected", "paper"},
              [](const std::string& name) { return find_merge_rule(name).value(); })
           .only(for_late_merges())
           .in_presets()
           .from([](R r) { return r.strategy.exchange.merge; }),
       choice("exchange", &S::exchange, {"sharded", "rotating"},
              [](const std::string& name) { return find_exchange_kind(name).value(); })
           .only(for_cycling())
           .in_presets()
           .from([](R r) { return r.strategy.exchange.kind; })
           .replacing({"wire"},
                      [](const Settings& s) { return s.exchange == ExchangeKind::kRotating; }),
       choice("wire", &S::wire, wire_names(),
              [](const std::string& name) { return find_wire(name).value(); })
           .only(for_late_merges())
           .in_presets()
           .from([](R r) { return r.strategy.exchange.wire; })
           .replacing({"exchange"}, [](const Settings& s) { return s.wire != Wire::kFp32; }),
       row("bucket-mb", &S::bucket_elements, "NUMBER", "Size of a gradient bucket, in MB",
           parse_bucket, [](std::int64_t elements) {
             return fmt::format("{}", static_cast<double>(elements) * sizeof(float) / kMegabyte);
           })});
}

Setting trace_row() {
  const auto print = [](const std::optional<StepRange>& trace) -> std::string {
    return trace ? fmt::format("steps={}..{}", trace->first, trace->end) : "none";
  };
  Setting trace = row("trace", &S::trace, "steps=A..B", "Steps that trace.json holds, or none",
                      parse_trace, print);
  trace.print = [=](const Settings& settings) { return print(settings.trace); };
  return trace;
}

Setting resume_row() {
  Setting resume =
      toggle("resume", &S::resume,
             "Go on from the newest checkpoint of --out, or from a checkpoint's folder")
          .outside_the_configuration();
  resume.type = "[DIR]";
  resume.only_on_command_line = true;
  resume.parse = [](Settings& settings, const std::string& folder) {
    settings.resume = true;
    settings.resume_from = folder;
  };
  return resume;
}

void add_output(std::vector<Setting>& table) {
  const auto path_of = [](const std::string&, const std::string& text) {
    return std::filesystem::path(text);
  };
  const auto text_of_path = [](const std::filesystem::path& path) { return path.string(); };
  add(table, SettingPart::kOutput,
      {row("out", &S::out, "TEXT", "Folder for all output (runs/<time>)", path_of, text_of_path)
           .outside_the_configuration()});
  add(table, SettingPart::kRecord,
      {row("checkpoint-every", &S::checkpoint_every, "NUMBER",
           "5steps, 1epochs or 10minutes (only at the end)", parse_every,
           [](const Every& every) { return text_of(every); }),
       count("keep", &S::keep, "Number of newest checkpoints to keep", 1), trace_row(),
       toggle("histograms", &S::histograms,
              "Histograms of parameters, once per epoch, for TensorBoard"),
       toggle("keep-best", &S::keep_best, "Keep the model of the best epoch, best.safetensors"),
       count("stopped-exit", &S::stopped_exit,
             "Exit code of a run that a signal stopped and that can go on (75)", 0, kLastExitCode)
           .outside_the_configuration(),
       resume_row()});
}

std::vector<Setting> make_table() {
  std::vector<Setting> table;
  for (const auto add_part :
       {add_model, add_data, add_rate, add_optimizer, add_cadence, add_exchange, add_output}) {
    add_part(table);
  }
  return table;
}

}  // namespace

const std::vector<Setting>& settings_table() {
  static const std::vector<Setting> kTable = make_table();
  return kTable;
}

const Setting& setting(std::string_view name) {
  const std::vector<Setting>& table = settings_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Setting& one) { return one.name == name; });
  DASO_ASSERT(found != table.end());
  return *found;
}

}  // namespace daso
