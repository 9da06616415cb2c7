// SPDX-License-Identifier: Apache-2.0
#include "cli/compare_runs.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/run_folder.h"
#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/base/toml.h"
#include "daso/record/report_text.h"
#include "daso/run/rank_device.h"
#include "daso/run/session.h"
#include "daso/run/train_output.h"

namespace daso::cli {
namespace {

// One run among those that take turns on the world, each with a session of its own.
struct Contender {
  Settings options;
  std::unique_ptr<Run> run;
  std::unique_ptr<Session> session;
  std::unique_ptr<TrainReport> report;  // rank 0's
  Outcome outcome;
};

// What a comparison has done of all that it will do.
struct Pace {
  int turns = 0;  // of all seeds
  int done = 0;
  const Clock::time_point begin = Clock::now();

  double seconds_left() const { return since(begin).count() / done * (turns - done); }
};

// The candidates, and the bound if it is not one of them.
std::vector<Candidate> with_bound(std::vector<Candidate> candidates) {
  const bool there = std::any_of(candidates.begin(), candidates.end(),
                                 [](const Candidate& one) { return one.label == bound().label; });
  if (!there) candidates.push_back(bound());
  return candidates;
}

Contender begin(World& world, const Candidate& candidate, const CompareOptions& options, int seed,
                at::Device device) {
  Contender one{.options = settings_of(candidate, options.job)};
  one.options.seed += static_cast<std::uint64_t>(seed);
  one.options.out /= fmt::format("{}-seed{}", candidate.folder, one.options.seed);
  make_folder("--out", one.options.out);
  one.run = std::make_unique<Run>(one.options, Task(), device);
  one.session = std::make_unique<Session>(world, *one.run);
  if (world.rank() == 0) {
    write_file(one.options.out / kConfigFile,
               toml_of(resolved_configuration(world, one.session->course())));
  }
  return one;
}

void advance(World& world, Contender& one, const CompareOptions& options) {
  // Nobody's turn begins before everybody's last one is over.
  world.everyone().barrier().wait(world.limit());
  one.session->train_epoch(
      [&](const Progress& now) {
        (*one.report)(now);
        const bool reached =
            now.test && options.target_accuracy && now.test->accuracy >= *options.target_accuracy;
        std::optional<double>& seconds = one.outcome.seconds_to_target;
        if (reached && !seconds) seconds = now.seconds;
      },
      [] { return std::nullopt; });
  one.session->settle();
}

std::vector<Contender> begin_all(World& world, const CompareOptions& options, int seed,
                                 at::Device device) {
  const std::vector<Candidate> all = with_bound(options.candidates);
  std::vector<Contender> runs;
  runs.reserve(all.size());
  for (const Candidate& candidate : all) {
    runs.push_back(begin(world, candidate, options, seed, device));
  }
  if (world.rank() == 0) {
    // Only now: a report refers to its contender, which must not move any more.
    for (Contender& one : runs) {
      one.report = std::make_unique<TrainReport>(world, one.session->course(), /*quiet=*/true);
    }
  }
  return runs;
}

// Of all candidates and the bound.
int most_epochs(const CompareOptions& options) {
  int most = 0;
  for (const Candidate& one : with_bound(options.candidates)) {
    most = std::max(most, settings_of(one, options.job).epochs);
  }
  return most;
}

// By candidate, with the bound where with_bound() has it.
std::vector<Outcome> train_all(World& world, const CompareOptions& options, int seed,
                               at::Device device,
                               const std::function<void(int epoch)>& after_epoch) {
  std::vector<Contender> runs = begin_all(world, options, seed, device);
  const int epochs = most_epochs(options);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      // Another one first in each epoch.
      Contender& one = runs[(i + static_cast<std::size_t>(epoch)) % runs.size()];
      if (!one.session->finished()) advance(world, one, options);
    }
    after_epoch(epoch);
  }
  std::vector<Outcome> outcomes;
  for (Contender& one : runs) {
    one.outcome.summary = one.session->finish();
    if (one.report) one.report->end(one.outcome.summary);
    outcomes.push_back(one.outcome);
  }
  return outcomes;
}

}  // namespace

void validate(const CompareOptions& options) {
  require(
      !options.target_accuracy || (*options.target_accuracy > 0 && *options.target_accuracy <= 1),
      "--target-accuracy lies between 0 and 1, got {}", options.target_accuracy.value_or(0));
  for (const Candidate& one : options.candidates) {
    const Settings settings = settings_of(one, options.job);
    try {
      validate(settings);
    } catch (const ConfigError& error) {
      if (one.flags.empty()) throw;
      throw ConfigError(fmt::format("'{}': {}", one.label, error.what()));
    }
  }
  require(options.job.out.empty() || !is_there(options.job.out / "compare.json"),
          "--out {} holds a comparison already: give another folder", options.job.out.string());
}

void compare_runs(World& world, const CompareOptions& options, bool quiet, const OnRows& on_rows) {
  const std::vector<Candidate> all = with_bound(options.candidates);
  const int epochs = most_epochs(options);
  const at::Device device = told_device(world, options.job.device);
  std::vector<Outcomes> outcomes;
  for (const Candidate& one : all) outcomes.push_back({one.label, {}});
  Pace pace{.turns = options.seeds * epochs};
  for (int seed = 0; seed < options.seeds; ++seed) {
    const std::vector<Outcome> runs = train_all(world, options, seed, device, [&](int epoch) {
      ++pace.done;
      if (quiet || world.rank() != 0) return;
      fmt::print("seed {} of {}: epoch {} of {} done by all {}, {} left\n", seed + 1, options.seeds,
                 epoch + 1, epochs, all.size(), short_duration(pace.seconds_left()));
      std::fflush(stdout);
    });
    for (std::size_t i = 0; i < all.size(); ++i) outcomes[i].runs.push_back(runs[i]);
    if (world.rank() != 0) continue;
    const auto least = std::find_if(outcomes.begin(), outcomes.end(),
                                    [](const Outcomes& one) { return one.label == bound().label; });
    const auto asked = static_cast<std::ptrdiff_t>(options.candidates.size());
    on_rows(rows_of({outcomes.begin(), outcomes.begin() + asked}, *least), seed + 1);
  }
}

}  // namespace daso::cli
