// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Train, LeavesTheFilesOfARunAndRefusesToOverwriteThem) {
  const ScratchFolder folder;
  const fs::path out = folder.path() / "run";
  Settings settings = small_run(out);
  settings.trace = StepRange{0, 100};
  daso::Run run(settings);
  World world = World::alone();
  EXPECT_EQ(train(world, run, {.json = true}), 0);
  for (const char* file : {"metrics.jsonl", "status.json", "summary.json", "report.html",
                           "trace.json", "config.toml", "checkpoints"}) {
    EXPECT_TRUE(fs::exists(out / file)) << file;
  }
  const auto summary = nlohmann::json::parse(bytes_of(out / "summary.json"));
  EXPECT_EQ(summary.at("steps"), 48);  // 3 epochs of 256 examples, 16 a step
  daso::Run again(settings);
  try {
    train(world, again);
    ADD_FAILURE() << "overwrites another run";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("holds a run already: give another folder, or --resume"));
  }
}

TEST(Flags, OfAProgramBecomeItsSettings) {
  const Settings settings =
      parse_flags({"--epochs", "3", "--lr=0.5", "--keep-best", "--no-decay", "a,b", "--resume"},
                  {.epochs = 9, .batch_size = 7});
  EXPECT_EQ(settings.epochs, 3);
  EXPECT_EQ(settings.lr, 0.5);
  EXPECT_TRUE(settings.keep_best);
  EXPECT_EQ(settings.optimizer.no_decay, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(settings.resume);
  EXPECT_EQ(settings.batch_size, 7);
}

TEST(Flags, ThatAreNotUnderstoodAreNamed) {
  const auto refusal = [](const std::vector<std::string>& words) -> std::string {
    try {
      parse_flags(words);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal({"--epoch", "3"}), HasSubstr("'--epoch'; did you mean --epochs?"));
  EXPECT_THAT(refusal({"seven"}), HasSubstr("there is no flag 'seven'"));
  EXPECT_THAT(refusal({"--epochs"}), HasSubstr("--epochs takes N, and nothing follows it"));
  EXPECT_THAT(refusal({"--epochs", "--lr", "1"}), HasSubstr("--epochs takes N"));
  EXPECT_THAT(refusal({"--keep-best=1"}), HasSubstr("--keep-best takes no value"));
  EXPECT_THAT(refusal({"--seed", "1", "--seed", "2"}), HasSubstr("--seed is given twice"));
  EXPECT_THAT(refusal({"--epochs", "0"}), HasSubstr("--epochs"));
}

}  // namespace
}  // namespace daso::test
