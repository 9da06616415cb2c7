// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/tensor/bf16.h"
#include "daso/tensor/device.h"
#include "data/data_files.h"
#include "data/image_files.h"
#include "runs.h"
#include "scratch_folder.h"

// docs/combinations.md: what works with what, by running it. With DASO_WRITE_DOCS set the page is
// written, else compared.
namespace daso::test {
namespace {

namespace fs = std::filesystem;

// Before anything computes: bf16 is one of the features.
const bool kCapped = (cap_instruction_sets(), true);

using Choose = std::function<void(Settings&)>;

struct Feature {
  const char* name;
  Choose choose;
};

// Whatever the data, an epoch has 5 steps, so that the checkpoint at step 6 lies within the second.

void accumulate(Settings& o) {
  o.accumulate = 2;
  o.batch_size = 2;
}

void sync_batchnorm(Settings& o) {
  o.model = "cnn";
  o.sync_batchnorm = true;
}

void use_text(Settings& o, const fs::path& folder, const char* keys) {
  o.data = fmt::format("text:{},length=16{}", (folder / "text").string(), keys);
  o.model = "transformer";
  o.embedding = 16;
}

void use_images(Settings& o, const fs::path& folder) {
  o.data = fmt::format("images:{},size=8", folder.string());
  o.batch_size = 1;
}

// The smallest files of each kind of data.
void write_data(const fs::path& folder) {
  std::ofstream text(folder / "text");
  for (int i = 0; i < 45; ++i) text << "eins zwei drei vier f\u00fcnf\n";
  fs::create_directories(folder / "cifar");
  write_cifar_folder(folder / "cifar", /*records=*/3);
  for (const char* name : {"images", "damaged"}) write_image_folder(folder / name, /*train=*/8);
  std::ofstream(folder / "damaged" / "train" / "a" / "image1.png") << "no image";
}

std::vector<Feature> recipe_features() {
  return {
      {"`--optimizer sgd`", [](Settings& o) { o.optimizer.name = "sgd"; }},
      {"`--nesterov`", [](Settings& o) { o.optimizer.nesterov = true; }},
      {"`--optimizer adamw`", [](Settings& o) { o.optimizer.name = "adamw"; }},
      {"`--optimizer lars`", [](Settings& o) { o.optimizer.name = "lars"; }},
      {"`--optimizer lamb`", [](Settings& o) { o.optimizer.name = "lamb"; }},
      {"`--no-decay-norm-bias`", [](Settings& o) { o.optimizer.decay_all = false; }},
      {"`--no-decay`", [](Settings& o) { o.optimizer.no_decay = {"fc1"}; }},
      {"`--ema`", [](Settings& o) { o.optimizer.ema = 0.9; }},
      {"`--label-smoothing`", [](Settings& o) { o.label_smoothing = 0.1; }},
      {"`--lr-schedule step`",
       [](Settings& o) {
         o.lr_schedule = RateKind::kStep;
         o.lr_steps = {1};
       }},
      {"`--lr-schedule polynomial`", [](Settings& o) { o.lr_schedule = RateKind::kPolynomial; }},
      {"`--lr-schedule constant`", [](Settings& o) { o.lr_schedule = RateKind::kConstant; }},
      {"`--lr-schedule plateau`", [](Settings& o) { o.lr_schedule = RateKind::kPlateau; }},
      {"`--base-lr`", [](Settings& o) { o.base_lr = 0.1; }},
      {"`--clip-norm`", [](Settings& o) { o.clip_norm = 1; }},
      {"`--accumulate 2`", accumulate},
      {"`--uneven wrap`", [](Settings& o) { o.uneven = Uneven::kWrap; }},
      {"`--augment crop+flip`", [](Settings& o) { o.augment = Augment::kCropFlip; }},
      {"`--loader-threads 2`", [](Settings& o) { o.loader_threads = 2; }},
      {"`--freeze`", [](Settings& o) { o.freeze = {"fc1"}; }},
      {"`--max-steps 8`", [](Settings& o) { o.max_steps = 8; }},
  };
}

// Loss scaling changes gradients and skips steps, so fp16 comes with what depends on either too.
std::vector<Feature> precision_features() {
  const auto in_fp16 = [](const Choose& choose) {
    return [choose](Settings& o) {
      choose(o);
      o.precision = Precision::kFp16;
    };
  };
  return {
      {"`--precision bf16`", [](Settings& o) { o.precision = Precision::kBf16; }},
      {"`--precision fp16`", in_fp16([](Settings&) {})},
      {"`--precision fp16 --accumulate 2`", in_fp16(accumulate)},
      {"`--precision fp16 --ema`", in_fp16([](Settings& o) { o.optimizer.ema = 0.9; })},
      {"`--precision fp16 --sync-batchnorm`", in_fp16(sync_batchnorm)},
  };
}

std::vector<Feature> model_features(const fs::path& folder) {
  return {
      {"`--model cnn` (BatchNorm)", [](Settings& o) { o.model = "cnn"; }},
      {"`--sync-batchnorm`", sync_batchnorm},
      {"`--model vit-tiny`", [](Settings& o) { o.model = "vit-tiny"; }},
      {"`--model transformer`", [folder](Settings& o) { use_text(o, folder, ""); }},
      {"`--model transformer --dropout 0.1`",
       [folder](Settings& o) {
         use_text(o, folder, "");
         o.dropout = 0.1;
       }},
      {"`--data text:FILE,tokens=characters`",
       [folder](Settings& o) { use_text(o, folder, ",tokens=characters"); }},
      {"`--data idx:DIR`",
       [](Settings& o) {
         o.data = "idx:" DASO_DIGITS;
         o.batch_size = 72;
       }},
      {"`--data cifar10:DIR`",
       [folder](Settings& o) {
         o.data = fmt::format("cifar10:{}", (folder / "cifar").string());
         o.model = "cnn";
         o.batch_size = 1;
       }},
      {"`--data images:DIR --augment resized-crop+flip`",
       [folder](Settings& o) {
         use_images(o, folder / "images");
         o.augment = Augment::kResizedCropFlip;
       }},
      {"`--data images:DIR --skip-bad-images`",
       [folder](Settings& o) {
         use_images(o, folder / "damaged");
         o.skip_bad_images = true;
       }},
  };
}

std::vector<Feature> exchange_features() {
  return {
      {"`--preset paper`", [](Settings& o) { o.preset = "paper"; }},
      {"`--merge paper`", [](Settings& o) { o.merge = MergeRule::kPaper; }},
      {"`--exchange rotating`", [](Settings& o) { o.exchange = ExchangeKind::kRotating; }},
      {"`--wire fp32`", [](Settings& o) { o.wire = Wire::kFp32; }},
      {"`--wire bf16`", [](Settings& o) { o.wire = Wire::kBf16; }},
      {"`--wire fp16`", [](Settings& o) { o.wire = Wire::kFp16; }},
      {"`--wire int8`", [](Settings& o) { o.wire = Wire::kInt8; }},
      {"`--wire int4`", [](Settings& o) { o.wire = Wire::kInt4; }},
      {"`--wire qsgd2`", [](Settings& o) { o.wire = Wire::kQsgd2; }},
      {"`--wire qsgd4`", [](Settings& o) { o.wire = Wire::kQsgd4; }},
      {"`--wire qsgd8`", [](Settings& o) { o.wire = Wire::kQsgd8; }},
      {"`--schedule fixed`", [](Settings& o) { o.schedule = ScheduleKind::kFixed; }},
      {"`--schedule plateau`", [](Settings& o) { o.schedule = ScheduleKind::kPlateau; }},
      {"`--schedule rate`", [](Settings& o) { o.schedule = ScheduleKind::kRate; }},
  };
}

// Everything that changes what is computed, one at a time.
std::vector<Feature> features(const fs::path& folder) {
  std::vector<Feature> all;
  for (const std::vector<Feature>& group :
       {recipe_features(), precision_features(), model_features(folder), exchange_features()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

// The ranks are threads here, and LibTorch has one thread for the backwards of a GPU in a process:
// one backward that waits for another rank's, as statistics of a node do, would wait for ever.
std::vector<std::string> nodes_of_ranks(const Settings& options, at::Device device) {
  if (options.sync_batchnorm && !device.is_cpu()) return {"a", "b"};
  return {"a", "a", "b"};
}

// Trains for two epochs, then again from a checkpoint in the middle of the second: the same bytes.
void expect_to_work(Settings options, at::Device device) {
  RunOptions ranks;
  ranks.nodes = nodes_of_ranks(options, device);
  ranks.device = device;
  const ScratchFolder whole;
  options.out = whole.path();
  const std::vector<Summary> done = train(options, ranks);
  EXPECT_GT(done[0].steps, 6);
  const ScratchFolder rest;
  options.out = rest.path();
  options.resume = true;
  options.resume_from = whole.path() / "checkpoints" / "step-000000006";
  train(options, ranks);
  EXPECT_TRUE(result_in(rest.path()) == result_in(whole.path())) << "resumed, it differs";
}

// The reasons for what is refused, numbered as they come.
class Reasons {
 public:
  std::string mark(const std::string& reason) {
    const auto [place, is_new] = numbers_.emplace(reason, numbers_.size() + 1);
    if (is_new) list_ += fmt::format("{}. {}\n", place->second, reason);
    return fmt::format("({})", place->second);
  }
  const std::string& list() const { return list_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::string list_;
};

// None where there is none to be used. To be asked before anything is drawn.
std::optional<at::Device> gpu() {
  try {
    return find_device({.kind = DeviceChoice::Kind::kCuda}, /*place=*/0).device;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

Settings options_for(const Feature& feature, const std::string& strategy) {
  Settings options = small_run("");
  options.data = "synthetic:train=60,test=12,size=8,channels=1";
  options.batch_size = 4;
  options.epochs = 2;
  options.strategy = strategy;
  options.checkpoint_every = Every{.number = 6, .unit = Every::Unit::kSteps};
  feature.choose(options);
  return options;
}

// A cell: "yes", or the number of the reason.
std::string outcome(Settings options, at::Device device, Reasons& reasons) {
  if (!device.is_cpu()) {
    options.deterministic = true;
    options.graphs = Graphs::kOff;  // the ranks are threads, and one at a time could record
  }
  try {
    validate(options);
    expect_to_work(options, device);
    return "yes";
  } catch (const ConfigError& error) {
    return reasons.mark(error.what());
  }
}

// All strategies together: "yes", or what those come to that work on the CPU and not there.
std::string outcome_on_gpu(const Feature& feature, const std::vector<std::string>& on_cpu,
                           at::Device device, Reasons& reasons) {
  const std::vector<std::string> strategies = strategy_names();
  std::vector<std::string> refused;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const std::string& strategy = strategies[i];
    if (on_cpu[i] != "yes") continue;
    SCOPED_TRACE(fmt::format("{} with {} on a GPU", feature.name, strategy));
    const std::string cell = outcome(options_for(feature, strategy), device, reasons);
    if (cell != "yes") refused.push_back(fmt::format("not {} {}", strategy, cell));
  }
  return refused.empty() ? "yes" : join(refused, ", ");
}

// What the page says of a feature on a GPU, where there is none to find out.
std::string outcome_so_far(const Feature& feature, const std::string& before) {
  const std::string begin = fmt::format("| {} |", feature.name);
  for (const std::string& line : split(before, '\n')) {
    if (!line.starts_with(begin)) continue;
    const std::vector<std::string> cells = split(line, '|');
    // Of a page without this column the last cell is a strategy's.
    if (cells.size() == strategy_names().size() + 4) {
      const std::string& cell = cells[cells.size() - 2];
      return cell.substr(1, cell.size() - 2);
    }
  }
  return "not run yet";
}

std::string page(const std::string& before, std::optional<at::Device> device) {
  const ScratchFolder folder;
  write_data(folder.path());
  std::string table;
  Reasons reasons;
  for (const Feature& feature : features(folder.path())) {
    std::vector<std::string> cells;
    for (const std::string& strategy : strategy_names()) {
      SCOPED_TRACE(fmt::format("{} with {}", feature.name, strategy));
      cells.push_back(outcome(options_for(feature, strategy), at::kCPU, reasons));
    }
    cells.push_back(device ? outcome_on_gpu(feature, cells, *device, reasons)
                           : outcome_so_far(feature, before));
    table += fmt::format("| {} | {} |\n", feature.name, join(cells, " | "));
  }
  return fmt::format(
      "# Combinations\n\n"
      "Each *yes* was run: two epochs on three ranks of two nodes, and again from a checkpoint in "
      "the middle of\nthe second epoch, which ended with the same bytes. A number means that `daso "
      "train` refuses the combination, for\nthe reason listed below. The last column is of all "
      "strategies that say *yes*, on one NVIDIA GPU that the ranks share,\nwith `--deterministic "
      "--graphs off`; it is filled in on machines that have one. With `--sync-batchnorm` each node "
      "has one rank there.\n`tests/run/matrix_test.cpp` generates this page.\n\n"
      "| | {} | on a GPU |\n|---|{}---|\n{}\n{}",
      join(strategy_names(), " | "), "---|---|---|---|---|", table, reasons.list());
}

TEST(Matrix, IsThePageOfTheDocumentation) {
  ASSERT_TRUE(kCapped);
  const std::optional<at::Device> device = gpu();
  const std::string made = page(bytes_of(DASO_COMBINATIONS), device);
  if (std::getenv("DASO_WRITE_DOCS") != nullptr) std::ofstream(DASO_COMBINATIONS) << made;
  EXPECT_EQ(bytes_of(DASO_COMBINATIONS), made)
      << "set DASO_WRITE_DOCS=1 to write docs/combinations.md";
}

}  // namespace
}  // namespace daso::test
