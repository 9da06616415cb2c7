// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/values.h"
#include "verify/verdict.h"
#include "verify/verify_ranks.h"

namespace daso::cli {
namespace {

using namespace verify;

using nlohmann::ordered_json;
using RunTraining = std::function<Outcome(const GoldenCase&)>;

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

// What was compared, for people.
std::string summary_of(const GoldenCase& golden, const Verdict& verdict, const VerifyFlags& flags) {
  return std::visit(
      Overloaded{[&](const TrainingCase& one) {
                   const std::string difference =
                       flags.wire == Wire::kFp32
                           ? fmt::format("largest difference {:.1e}", verdict.largest)
                           : fmt::format("within {:.1e}, bound {:.1e}", verdict.largest,
                                         verdict.bound + one.tolerance);
                   return fmt::format("{} ranks on {} nodes, {} steps, {} events, {}", one.ranks(),
                                      one.nodes.size(), one.steps(), one.events.size(), difference);
                 },
                 [](const ScheduleCase& one) { return fmt::format("{} epochs", one.plans.size()); },
                 [](const PeriodCase& one) {
                   return fmt::format("{} steps, {} starts", one.rates.size(), one.starts.size());
                 },
                 [](const WireCase& one) {
                   return fmt::format("{} nodes, {} elements, {} rounds", one.nodes.size(),
                                      one.elements, one.rounds.size());
                 }},
      golden.what);
}

ordered_json json_of(const GoldenCase& golden, const Outcome& outcome, const VerifyFlags& flags) {
  const Verdict& verdict = outcome.verdict;
  ordered_json one = {
      {"name", golden.name},
      {"file", golden.file},
      {"kind", std::array{"training", "schedule", "period", "wire"}[golden.what.index()]},
      {"ok", outcome.code == kExitOk && verdict.holds()}};
  if (const auto* training = std::get_if<TrainingCase>(&golden.what)) {
    one["nodes"] = training->nodes;
    one["ranks"] = training->ranks();
    one["steps"] = training->steps();
    one["events"] = training->events.size();
    one["tolerance"] = training->tolerance;
    if (outcome.code == kExitOk) one["largest_difference"] = verdict.largest;
    if (flags.wire != Wire::kFp32 && outcome.code == kExitOk) {
      one["bound"] = verdict.bound + training->tolerance;
    }
  }
  if (verdict.first) one["difference"] = verdict.first->detail;
  if (outcome.code != kExitOk) one["job_exit_code"] = outcome.code;
  return one;
}

// Prints as the cases end; JSON when all have.
class Output {
 public:
  Output(const VerifyFlags& flags, bool silent) : flags_(flags), silent_(silent) {}

  void add(const GoldenCase& golden, const Outcome& outcome) {
    const bool holds = outcome.code == kExitOk && outcome.verdict.holds();
    ++(holds ? held_ : failed_);
    cases_.push_back(json_of(golden, outcome, flags_));
    if (silent_ || flags_.json) return;
    if (outcome.code != kExitOk) {
      fmt::print("FAIL  {}: its ranks ended with exit code {}\n", golden.name, outcome.code);
    } else if (!holds) {
      fmt::print("FAIL  {}: {}\n", golden.name, outcome.verdict.first->text);
    } else {
      fmt::print("ok    {}  {}\n", golden.name, summary_of(golden, outcome.verdict, flags_));
    }
    std::fflush(stdout);
  }

  void finish(int code) const {
    if (silent_) return;
    const std::string_view exchange = name_of(flags_.exchange_kind());
    if (flags_.json) {
      const ordered_json report = {{"command", "verify"},
                                   {"ok", code == kExitOk},
                                   {"backend", flags_.launch.backend},
                                   {"exchange", exchange},
                                   {"wire", name_of(flags_.wire)},
                                   {"held", held_},
                                   {"failed", failed_},
                                   {"cases", cases_}};
      fmt::print("{}\n", report.dump(2));
      return;
    }
    fmt::print("{} of {} cases hold ({}, {}, {})\n", held_, held_ + failed_, flags_.launch.backend,
               exchange, name_of(flags_.wire));
  }

  bool all_hold() const { return failed_ == 0; }

 private:
  const VerifyFlags& flags_;
  const bool silent_;
  ordered_json cases_ = ordered_json::array();
  int held_ = 0;
  int failed_ = 0;
};

int verify_all(const std::vector<GoldenCase>& cases, const VerifyFlags& flags, bool silent,
               const RunTraining& run_training) {
  Output output(flags, silent);
  int code = kExitOk;
  for (const GoldenCase& golden : cases) {
    const Outcome outcome =
        std::visit(Overloaded{[&](const TrainingCase&) { return run_training(golden); },
                              [](const auto& one) { return Outcome{.verdict = verify_case(one)}; }},
                   golden.what);
    output.add(golden, outcome);
    // A job that failed a check says no more than the case; any other end is not about the case.
    code = outcome.code == kExitBug ? kExitOk : outcome.code;
    if (code != kExitOk) break;
  }
  if (code == kExitOk && !output.all_hold()) code = kExitBug;
  output.finish(code);
  return code;
}

std::vector<GoldenCase> read_cases(const VerifyFlags& flags) {
  std::vector<GoldenCase> cases;
  for (const std::string& file : flags.files) {
    for (GoldenCase& one : read_golden(file)) cases.push_back(std::move(one));
  }
  if (flags.only.empty()) return cases;
  std::vector<std::string> names;
  for (const GoldenCase& one : cases) names.push_back(one.name);
  std::erase_if(cases, [&](const GoldenCase& one) { return one.name != flags.only; });
  if (cases.empty()) {
    const std::optional<std::string> meant = nearest(flags.only, names);
    throw ConfigError(fmt::format(
        "--case: no case is called '{}'{}", flags.only,
        meant ? fmt::format("; did you mean '{}'?", *meant) : ", only " + join(names, ", ")));
  }
  return cases;
}

int verify_on_given_world(const VerifyFlags& flags, const Place& place,
                          const std::vector<GoldenCase>& cases) {
  require(flags.ranks != "threads",
          "--ranks threads needs no launcher, but this is a rank that {} has started; leave out "
          "the one or the other",
          name_of(place.launcher));
  for (const GoldenCase& golden : cases) {
    const auto* training = std::get_if<TrainingCase>(&golden.what);
    require(training == nullptr || training->ranks() == place.size,
            "case '{}' has {} ranks, but {} has started a world of {}; start as many, or choose "
            "cases with --case",
            golden.name, training == nullptr ? 0 : training->ranks(), name_of(place.launcher),
            place.size);
  }
  WorldOptions options = world_options(flags.launch, place);
  options.backend = GivenWorld::kBackend;
  options.configuration = "command = verify\n";
  return rank_main(options, [&](World& world) {
    GivenWorld given(world, place, flags);
    return verify_all(cases, flags, /*silent=*/world.rank() != 0,
                      [&](const GoldenCase& golden) { return given.verify(golden); });
  });
}

void validate(const VerifyFlags& flags) {
  require(flags.wire == Wire::kFp32 || flags.exchange_kind() == ExchangeKind::kSharded,
          "--exchange rotating sends fp32 only, --wire is {}; leave --exchange out: a lossy wire "
          "implies sharded",
          name_of(flags.wire));
  require(flags.launch.hosts.empty(),
          "--hosts {}: each case has ranks of its own, which verify starts on this machine only; "
          "for several machines start it by mpirun, torchrun or srun",
          join(flags.launch.hosts, ","));
  require(flags.ranks != "threads" || flags.launch.backend != "mpi",
          "--ranks threads talk by gloo, --backend is mpi: an MPI rank is a process; leave one "
          "of the flags out");
  require(flags.ranks != "threads" || flags.launch.cluster.empty(),
          "--ranks threads are all here, --cluster {} starts processes; leave one of the flags out",
          flags.launch.cluster);
}

int act(const VerifyFlags& flags) {
  validate(flags);
  const std::vector<GoldenCase> cases = read_cases(flags);
  const std::optional<Place> place = place_from(this_environment());
  if (flags.job_case) {
    require(place.has_value(), "--job-case is for ranks that daso verify has started");
    return verify_job_rank(flags, *place, cases.at(static_cast<std::size_t>(*flags.job_case)));
  }
  if (place) return verify_on_given_world(flags, *place, cases);
  const bool threads = flags.ranks == "threads";
  return verify_all(cases, flags, /*silent=*/false, [&](const GoldenCase& golden) {
    return threads ? on_threads(flags, golden) : on_processes(flags, golden);
  });
}

}  // namespace

Command add_verify(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand(
      "verify", "Run golden cases on real ranks and compare every step with them");
  const auto flags = std::make_shared<VerifyFlags>();
  const auto add = [app](const char* name, const char* type, const char* meaning, auto take) {
    return app->add_option_function<std::string>(name, take, meaning)->type_name(type);
  };
  app->add_option("FILE", flags->files, "Files of golden cases")->required()->type_name("");
  add("--case", "NAME", "Only the case of this name",
      [=](const std::string& text) { flags->only = text; });
  add("--ranks", "KIND", "Ranks are processes or threads", [=](const std::string& text) {
    flags->ranks = parse_choice("--ranks", text, {"processes", "threads"});
  })->default_str("processes");
  const auto run = std::make_shared<Settings>();  // of it these two
  add_setting(*app, *run, setting("exchange"))->default_str("rotating");
  add_setting(*app, *run, setting("wire"))
      ->description(setting("wire").help + "; all but fp32: sharded, to a bound")
      ->default_str("fp32");
  add("--device", "NAME", "Of training cases: cpu, cuda, cuda:N, auto",
      [=](const std::string& text) { flags->device = parse_device(text); })
      ->default_str("cpu");
  app->add_flag("--json", flags->json, "Print one JSON object");
  add("--job-case", "I", "", [=](const std::string& text) {
    flags->job_case = parse_count("--job-case", text, 0);
  })->group("");  // how this program starts itself
  add_launch_flags(*app, flags->launch, Shape{});
  add_world_flags(*app, flags->launch);
  // Each case says how many ranks it has, and on which nodes.
  for (const char* name : {"--nodes", "--ranks-per-node", "--node-of-rank", "--node-index"}) {
    app->remove_option(app->get_option(name));
  }
  app->footer("See docs/verify.md for what is compared, and how exactly.");
  return {app, [flags, run](const Invocation&) {
            flags->exchange = run->exchange;
            flags->wire = run->wire.value_or(flags->wire);
            return act(*flags);
          }};
}

}  // namespace daso::cli
