// SPDX-License-Identifier: Apache-2.0
#include "cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <random>

#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

// A train command's flags, as they are after a file was applied.
TrainOptions options_after(const std::string& text) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "c.toml";
  std::ofstream(path, std::ios::binary) << text;
  TrainOptions options{.trace = StepRange{0, 200}};
  CLI::App app;
  add_train_flags(app, options);
  app.parse(std::vector<std::string>{});
  apply_config_file(app, path);
  validate(options);
  return options;
}

const std::string kWhole =
    "data = \"idx:some/where\"\nmodel = 'mlp'\nepochs = 12\nlr = 0.05\nnesterov = true\n"
    "# a comment\nstrategy = \"daso\"\nskip = 8\nwait = 2\nwire = \"bf16\"\n"
    "checkpoint-every = \"5steps\"\ntrace = \"none\"\nfreeze = \"fc1,fc2.bias\"\n";

TEST(ConfigFile, GivesFlagsTheirValues) {
  const TrainOptions options = options_after(kWhole);
  EXPECT_EQ(options.data, "idx:some/where");
  EXPECT_EQ(options.epochs, 12);
  EXPECT_EQ(options.lr, 0.05);
  EXPECT_TRUE(options.optimizer.nesterov);
  EXPECT_EQ(options.wire, Wire::kBf16);
  EXPECT_FALSE(options.trace);
  EXPECT_EQ(options.freeze, (std::vector<std::string>{"fc1", "fc2.bias"}));
}

// What a resolved run writes, a run takes.
TEST(ConfigFile, TakesWhatIsWrittenOfARun) {
  const TrainOptions options = options_after(kWhole);
  const TrainOptions again = options_after(toml_of(configuration_of(options)));
  EXPECT_EQ(configuration_of(again), configuration_of(options));
}

// Whatever is in the file: it is understood, or refused with a ConfigError.
TEST(ConfigFile, DamagedFilesAreUnderstoodOrRefused) {
  std::mt19937 dice(11);
  using namespace std::string_literals;
  const std::string letters = "\"'=[]#\n\\\0 ,.-x9\xff"s;
  int refused = 0;
  for (int attempt = 0; attempt < 4000; ++attempt) {
    std::string text = kWhole;
    for (int change = static_cast<int>(dice() % 4); change >= 0; --change) {
      const std::size_t place = dice() % text.size();
      const char letter = letters[dice() % letters.size()];
      switch (dice() % 3) {
        case 0:
          text[place] = letter;
          break;
        case 1:
          text.insert(place, 1 + dice() % 3, letter);
          break;
        default:
          text.erase(place, 1 + dice() % 9);
      }
    }
    try {
      options_after(text);
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
}

}  // namespace
}  // namespace daso::test
