// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/run/settings_table.h"

// The table of settings, and docs/settings.md, which is made from it. With DASO_WRITE_DOCS set the
// page is written, else compared.
namespace daso::test {
namespace {

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Setting& one : settings_table()) names.push_back(one.name);
  return names;
}

// Something that the setting takes, and that is not its default.
std::string sample_of(const Setting& one) {
  static const std::map<std::string, std::string> kOthers = {{"seed", "18446744073709551615"},
                                                             {"checkpoint-every", "5steps"},
                                                             {"trace", "steps=3..9"},
                                                             {"lr-steps", "2,4.5"}};
  if (const auto other = kOthers.find(one.name); other != kOthers.end()) return other->second;
  if (one.type.empty()) return "true";
  if (one.type == "N") return "3";
  if (one.type == "NUMBER") return "0.25";
  if (one.type == "NAME") return split(split(one.help, ' ')[1], ',')[0];  // the second choice
  return "a,b";
}

std::string refusal(const Settings& settings) {
  try {
    validate(settings);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// The refusal of a run with these, as --name value.
std::string refusal_of(const std::map<std::string, std::string>& given) {
  Settings settings;
  for (const auto& [name, value] : given) setting(name).parse(settings, value);
  return refusal(settings);
}

// The flags of version 0.1: a name that somebody has in a file stays.
TEST(SettingsTable, HasEveryNameThatThereEverWas) {
  const std::vector<std::string> names = all_names();
  const std::set<std::string> known(names.begin(), names.end());
  EXPECT_EQ(known.size(), names.size()) << "a name stands there twice";
  for (const char* name : {"strategy",
                           "preset",
                           "data",
                           "model",
                           "layers",
                           "embedding",
                           "heads",
                           "dropout",
                           "init",
                           "freeze",
                           "epochs",
                           "batch-size",
                           "accumulate",
                           "augment",
                           "skip-bad-images",
                           "uneven",
                           "seed",
                           "threads",
                           "loader-threads",
                           "lr",
                           "base-lr",
                           "lr-warmup-epochs",
                           "lr-start",
                           "lr-schedule",
                           "lr-end",
                           "lr-power",
                           "lr-steps",
                           "lr-gamma",
                           "lr-patience",
                           "lr-threshold",
                           "optimizer",
                           "momentum",
                           "nesterov",
                           "trust",
                           "weight-decay",
                           "no-decay-norm-bias",
                           "no-decay",
                           "precision",
                           "sync-batchnorm",
                           "clip-norm",
                           "label-smoothing",
                           "ema",
                           "schedule",
                           "skip",
                           "wait",
                           "alpha",
                           "patience",
                           "threshold",
                           "warmup-epochs",
                           "cooldown-epochs",
                           "merge",
                           "exchange",
                           "wire",
                           "bucket-mb",
                           "out",
                           "checkpoint-every",
                           "keep",
                           "trace",
                           "histograms",
                           "keep-best",
                           "resume"}) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
}

TEST(SettingsTable, NamesOnlySettingsThatThereAre) {
  const std::vector<std::string> names = all_names();
  const std::set<std::string> known(names.begin(), names.end());
  for (const Setting& one : settings_table()) {
    for (const SettingUse& use : one.uses) EXPECT_TRUE(known.contains(use.decided_by)) << one.name;
    for (const std::string& other : one.replaces) EXPECT_TRUE(known.contains(other)) << one.name;
  }
}

TEST(SettingsTable, EverySettingIsPrintedAsItWasWritten) {
  for (const Setting& one : settings_table()) {
    SCOPED_TRACE(one.name);
    Settings settings;
    EXPECT_FALSE(one.given(settings));
    const std::string text = sample_of(one);
    one.parse(settings, text);
    EXPECT_TRUE(one.given(settings));
    if (one.print) {
      EXPECT_EQ(one.print(settings), text);
    }
    // Nothing but that one has changed.
    one.drop(settings);
    EXPECT_FALSE(one.given(settings));
    EXPECT_EQ(configuration_of(settings), configuration_of(Settings()));
  }
}

TEST(SettingsTable, ConfigurationMakesTheSameSettingsAgain) {
  Settings settings;
  for (const Setting& one : settings_table()) {
    if (one.print) one.parse(settings, sample_of(one));
  }
  Settings again;
  for (const auto& [name, value] : configuration_of(settings)) setting(name).parse(again, value);
  EXPECT_EQ(configuration_of(again), configuration_of(settings));
  EXPECT_EQ(again.optimizer.no_decay, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(again.optimizer.decay_all);
  EXPECT_EQ(again.bucket_elements, 65536);  // a quarter of a MB of 4 bytes each
}

TEST(SettingsTable, WhatWouldChangeNothingNamesWhoUsesIt) {
  EXPECT_EQ(refusal_of({{"wire", "int8"}, {"strategy", "local"}}),
            "--wire changes nothing here: it is for --strategy daso");
  EXPECT_EQ(refusal_of({{"skip", "4"}, {"strategy", "sync"}}),
            "--skip changes nothing here: it is for --strategy daso and local");
  EXPECT_EQ(refusal_of({{"sync-batchnorm", "true"}, {"strategy", "none"}}),
            "--sync-batchnorm changes nothing here: it is for strategies whose ranks train one "
            "model");
  EXPECT_EQ(refusal_of({{"alpha", "0.1"}, {"schedule", "fixed"}}),
            "--alpha changes nothing here: it is for --schedule rate");
  EXPECT_EQ(refusal_of({{"alpha", "0.1"}, {"preset", "paper"}}),
            "--alpha changes nothing here: it is for --schedule rate");
  EXPECT_EQ(refusal_of({{"patience", "1"}}),
            "--patience changes nothing here: it is for --schedule plateau");
  EXPECT_EQ(refusal_of({{"lr-gamma", "0.1"}}),
            "--lr-gamma changes nothing here: it is for --lr-schedule step and plateau");
  EXPECT_EQ(refusal_of({{"trust", "0.1"}}),
            "--trust changes nothing here: it is for --optimizer lars");
  EXPECT_EQ(refusal_of({{"no-decay-norm-bias", "true"}, {"optimizer", "lamb"}}),
            "--no-decay-norm-bias changes nothing here: it is for --optimizer sgd and adamw");
  EXPECT_EQ(refusal_of({{"heads", "2"}}),
            "--heads changes nothing here: it is for --model transformer");
}

TEST(SettingsTable, ValuesOutOfRangeAreRefusedByName) {
  Settings settings;
  settings.epochs = 0;
  EXPECT_EQ(refusal(settings), "--epochs must be at least 1, got 0");
  settings = {};
  settings.threads = kMostThreads + 1;
  EXPECT_EQ(refusal(settings), "--threads must be in 1 ... 1024, got 1025");
  settings = {};
  settings.strategy = "dazo";
  EXPECT_EQ(refusal(settings),
            "--strategy 'dazo' is unknown; did you mean daso? There are none, node, sync, local, "
            "daso");
  EXPECT_EQ(refusal_of({{"lr", "-1"}}), "--lr must be above 0, got -1");
  EXPECT_EQ(refusal_of({{"weight-decay", "-0.5"}}), "--weight-decay must be 0 or more, got -0.5");
  EXPECT_EQ(refusal_of({{"ema", "1"}}), "--ema must be between 0 and 1, like 0.999, got 1");
  EXPECT_THROW(refusal_of({{"bucket-mb", "1e300"}}), ConfigError);
}

TEST(SettingsTable, TellsWhatDecidesTheStateOfARun) {
  Settings settings;
  EXPECT_EQ(flags_of_state(settings), "--optimizer sgd --precision fp32");
  settings.model = "vit-tiny";
  settings.optimizer.ema = 0.999;
  settings.freeze = {"fc1", "fc2"};
  EXPECT_EQ(flags_of_state(settings),
            "--freeze fc1,fc2 --optimizer adamw --precision fp32 --ema 0.999");
}

const char* title_of(SettingPart part) {
  switch (part) {
    case SettingPart::kStrategy:
      return "Strategy";
    case SettingPart::kModel:
      return "Data and model";
    case SettingPart::kBatch:
      return "Batches";
    case SettingPart::kData:
      return "Examples";
    case SettingPart::kRate:
      return "Learning rate";
    case SettingPart::kOptimizer:
      return "Optimizer and arithmetic";
    case SettingPart::kExchange:
      return "Exchanges between nodes";
    case SettingPart::kOutput:
      return "Output";
    case SettingPart::kRecord:
      return "Checkpoints and records";
  }
  return "";
}

// Inside a cell of a table.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, 1, '\\');
  }
  return text;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

std::string page() {
  std::string text =
      "# Settings\n\n"
      "Every setting of a run: a flag of `daso train` and, without its dashes, a key of the TOML "
      "file that `--config` takes.\nWhat is not given has the value of the third column, or, in "
      "brackets, what a run makes of it; `config.toml` holds them all as resolved.\nA setting that "
      "is given where nobody uses it is refused. [training.md](training.md) tells what they are "
      "good for.\nThe page is made from `src/daso/run/settings_table.cpp` by "
      "`tests/run/settings_test.cpp`.\n";
  const Settings usual{.trace = StepRange{0, 200}};  // as daso train begins
  std::optional<SettingPart> part;
  for (const Setting& one : settings_table()) {
    if (part != one.part) {
      part = one.part;
      text += fmt::format(
          "\n## {}\n\n| flag | takes | default | meaning | for |\n"
          "|---|---|---|---|---|\n",
          title_of(one.part));
    }
    std::vector<std::string> users;
    for (const SettingUse& use : one.uses) users.push_back(use.users);
    const bool shown = one.print && !one.type.empty();
    text += fmt::format("| {} | {} | {} | {} | {} |\n", code(one.flag()), code(one.type),
                        shown ? code(one.print(usual).value_or("")) : "", cell(one.help),
                        join(users, "; "));
  }
  return text;
}

TEST(SettingsTable, IsThePageOfTheDocumentation) {
  const std::string made = page();
  if (std::getenv("DASO_WRITE_DOCS") != nullptr) std::ofstream(DASO_SETTINGS_PAGE) << made;
  std::stringstream found;
  found << std::ifstream(DASO_SETTINGS_PAGE).rdbuf();
  EXPECT_EQ(found.str(), made) << "set DASO_WRITE_DOCS=1 to write docs/settings.md";
}

}  // namespace
}  // namespace daso::test
