// SPDX-License-Identifier: Apache-2.0
#include "cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <random>

#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

using namespace daso::cli;

// A train command's flags, as they are after a file was applied; those on the command line win.
Settings options_after(const std::string& text, std::vector<std::string> words = {}) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "c.toml";
  std::ofstream(path, std::ios::binary) << text;
  Settings options{.trace = StepRange{0, 200}};
  CLI::App app;
  add_train_flags(app, options);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  app.parse(std::move(words));
  apply_config_file(app, path, replaced_keys(app, options));
  validate(options);
  return options;
}

const std::string kWhole =
    "data = \"idx:some/where\"\nmodel = 'mlp'\nepochs = 12\nlr = 0.05\nnesterov = true\n"
    "# a comment\nstrategy = \"daso\"\nskip = 8\nwait = 2\nwire = \"bf16\"\n"
    "checkpoint-every = \"5steps\"\ntrace = \"none\"\nfreeze = \"fc1,fc2.bias\"\n";

TEST(ConfigFile, GivesFlagsTheirValues) {
  const Settings options = options_after(kWhole);
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
  const Settings options = options_after(kWhole);
  const Settings again = options_after(toml_of(configuration_of(options)));
  EXPECT_EQ(configuration_of(again), configuration_of(options));
}

TEST(ConfigFile, KeepsWhateverTheNameOfAFileHas) {
  for (const std::string data : {R"(idx:a "b" c)", R"(idx:C:\new\table)", "idx:two\nlines",
                                 "idx:'one' #2 = [3]", "idx:f\xc3\xbcnf", "1e5", "true"}) {
    Settings options;
    options.data = data;
    EXPECT_EQ(options_after(toml_of(configuration_of(options))).data, data);
  }
}

// A configuration as version 0.1 wrote it.
TEST(ConfigFile, TakesFilesOfOlderVersions) {
  const Settings options = options_after(
      "data = \"synthetic\"\nmodel = \"cnn\"\nepochs = 6\nbatch-size = 32\naccumulate = 1\n"
      "lr = 0.1\nlr-warmup-epochs = 1\nlr-schedule = \"cosine\"\nlr-end = 0.01\n"
      "optimizer = \"sgd\"\nmomentum = 0.9\nnesterov = false\nweight-decay = 0.0005\n"
      "no-decay-norm-bias = false\nprecision = \"fp32\"\nsync-batchnorm = false\n"
      "strategy = \"daso\"\npreset = \"default\"\nschedule = \"rate\"\nskip = 4\nwait = 1\n"
      "alpha = 1e-05\nwarmup-epochs = 1\ncooldown-epochs = 0\nmerge = \"corrected\"\n"
      "exchange = \"sharded\"\nwire = \"int8\"\nbucket-mb = 1\naugment = \"none\"\n"
      "uneven = \"drop\"\nseed = 18446744073709551615\nthreads = 1\nloader-threads = 1\n"
      "keep = 2\nkeep-best = false\ntrace = \"steps=0..200\"\nhistograms = false\n");
  EXPECT_EQ(options.alpha, 1e-05);
  EXPECT_EQ(options.seed, 18446744073709551615U);
  EXPECT_EQ(options.trace, (StepRange{0, 200}));
  EXPECT_TRUE(options.optimizer.decay_all);
}

// Values that a run has resolved for what a flag has replaced do not count.
TEST(ConfigFile, DoesNotHoldAgainstFlagsWhatTheyReplace) {
  const std::string saved =
      "lr = 0.1\nlr-start = 0.01\nlr-warmup-epochs = 1\nlr-schedule = \"cosine\"\nlr-end = 0.05\n"
      "schedule = \"plateau\"\npatience = 3\nthreshold = 0.1\n";
  EXPECT_FALSE(options_after(saved, {"--lr-schedule", "constant"}).lr_end);
  EXPECT_EQ(options_after(saved, {"--lr-schedule", "cosine"}).lr_end, 0.05);
  EXPECT_EQ(options_after(saved, {"--lr-schedule", "polynomial"}).lr_end, 0.05);
  EXPECT_EQ(options_after(saved, {"--epochs", "9"}).lr_end, 0.05);
  EXPECT_FALSE(options_after(saved, {"--base-lr", "0.2"}).lr);
  EXPECT_FALSE(options_after("base-lr = 0.1\n", {"--lr", "0.2"}).base_lr);
  const std::string sgd = "optimizer = \"sgd\"\nmomentum = 0.8\nnesterov = true\n";
  EXPECT_FALSE(options_after(sgd, {"--optimizer", "adamw"}).momentum);
  EXPECT_FALSE(options_after(sgd, {"--optimizer", "lars"}).optimizer.nesterov);
  EXPECT_EQ(options_after(sgd, {"--optimizer", "lars"}).momentum, 0.8);
  EXPECT_FALSE(options_after(saved, {"--lr-warmup-epochs", "0"}).lr_start);
  EXPECT_FALSE(options_after(saved, {"--schedule", "rate"}).patience);
  EXPECT_EQ(options_after(saved, {"--schedule", "plateau"}).patience, 3);
  EXPECT_FALSE(options_after(saved + "alpha = 0.1\n", {"--schedule", "plateau"}).alpha);
  EXPECT_FALSE(options_after(kWhole, {"--strategy", "sync"}).skip);
  EXPECT_EQ(options_after(kWhole, {"--strategy", "local"}).skip, 8);
  EXPECT_FALSE(options_after(kWhole, {"--strategy", "local"}).wire);
  EXPECT_FALSE(options_after("sync-batchnorm = true\nmodel = \"cnn\"\n", {"--strategy", "none"})
                   .sync_batchnorm);
  EXPECT_FALSE(options_after(kWhole, {"--preset", "paper"}).wire);
  EXPECT_FALSE(options_after(kWhole, {"--exchange", "rotating"}).wire);
  EXPECT_FALSE(
      options_after("exchange = \"rotating\"\nwire = \"fp32\"\n", {"--wire", "int8"}).exchange);
  // What is given now is held against them.
  EXPECT_THROW(options_after(saved, {"--lr-schedule", "constant", "--lr-end", "0.1"}), ConfigError);
}

TEST(ConfigFile, TakesListsInEitherForm) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(options_after("no-decay = [\"fc1\", \"fc2\"]\n").optimizer.no_decay,
            (Names{"fc1", "fc2"}));
  EXPECT_EQ(options_after("freeze = \"fc1,fc2\"\n").freeze, (Names{"fc1", "fc2"}));
  EXPECT_EQ(options_after("lr-schedule = \"step\"\nlr-steps = [2, 4.5]\n").lr_steps,
            (std::vector<double>{2, 4.5}));
}

TEST(ConfigFile, SaysWhereItIsNotUnderstood) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      options_after(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "not refused";
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal("[train]\nlr = 0.1\n"), HasSubstr(": line 1: 'train' is a section"));
  EXPECT_THAT(refusal("lr 0.1\n"), HasSubstr("c.toml: line 1: "));
  EXPECT_THAT(refusal("lr = 0.1\nepochs 5\n"), HasSubstr("c.toml: line 2: "));
  EXPECT_THAT(refusal("lr = 0.1\n\nepochs = 0\n"),
              HasSubstr(": line 3: --epochs takes a whole number of at least 1, got '0'"));
  EXPECT_THAT(refusal("lr = 0.1\nepoch = 5\n"),
              HasSubstr(": line 2: there is no key 'epoch'; did you mean 'epochs'?"));
  EXPECT_THAT(refusal("nesterov = 1\n"), HasSubstr(": line 1: 'nesterov' is true or false"));
  EXPECT_THAT(refusal("resume = true\n"), HasSubstr("give --resume on the command line"));
  EXPECT_THAT(refusal("help = true\n"), HasSubstr("give --help on the command line"));
  EXPECT_THAT(refusal("epochs = [1, 2]\n"), HasSubstr("'epochs' takes one value, got 2: 1, 2"));
  EXPECT_THAT(refusal("epochs = []\n"), HasSubstr("epochs"));
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
