// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/operations.h"
#include "bench/statistics.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/table.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/values.h"
#include "daso/launch/ranks.h"

namespace daso::cli {
namespace {

using namespace bench;

using nlohmann::ordered_json;

constexpr int kFewestRounds = 7;
constexpr int kWarmupRounds = 2;
constexpr double kBusyFactor = 2;  // the caller is busy for so many times the time alone

struct BenchOverlapOptions {
  LaunchFlags launch;
  std::int64_t bytes = std::int64_t{16} << 20;
  std::vector<std::string> callers = {"sleeps", "computes"};
  int iterations = 15;
  bool json = false;
};

void sleep_for(Seconds time) { std::this_thread::sleep_for(time); }

// Arithmetic that stays in the cache, so that it takes a core and nothing else.
void compute_for(Seconds time) {
  const Deadline deadline(time);
  std::array<float, 1024> values{};
  while (!deadline.passed()) {
    for (float& value : values) value = value * 0.999F + 1.0F;
    asm volatile("" : : "r"(values.data()) : "memory");  // the compiler must not leave it out
  }
}

struct Caller {
  std::string name;
  void (*busy)(Seconds time);
};

Caller caller_of(const std::string& name) {
  return {name, name == "sleeps" ? &sleep_for : &compute_for};
}

struct CallerResult {
  std::string caller;
  OverRanks seconds_blocked;
  OverRanks overlap;
};

struct OverlapResult {
  OverRanks seconds_alone;
  std::vector<CallerResult> callers;
  bool verified = false;
};

class OverlapBench {
 public:
  OverlapBench(World& world, const BenchOverlapOptions& options)
      : ranks_(world.everyone()), limit_(world.limit()), options_(options) {
    constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(float));
    tensor_ = at::empty({options.bytes / kElementBytes}, at::kFloat);
  }

  // Alone and beside each caller in turn, so that all see the same state of the machine.
  OverlapResult measure() {
    std::vector<Caller> callers;
    for (const std::string& name : options_.callers) callers.push_back(caller_of(name));
    for (int i = 0; i < kWarmupRounds; ++i) blocked(nullptr, Seconds(0));
    std::vector<double> alone;
    std::vector<std::vector<double>> blocked_beside(callers.size());
    for (int i = 0; i < options_.iterations; ++i) {
      alone.push_back(blocked(nullptr, Seconds(0)));
      for (std::size_t c = 0; c < callers.size(); ++c) {
        const Seconds busy(kBusyFactor * median(alone));
        blocked_beside[c].push_back(blocked(callers[c].busy, busy));
      }
    }
    return conclude(median(alone), callers, blocked_beside);
  }

 private:
  // The time that an all_reduce blocks its caller, which is busy with something else first.
  double blocked(void (*busy)(Seconds), Seconds time) {
    const int rank = ranks_.rank();
    const int size = ranks_.size();
    fill(tensor_, {.kind = Pattern::Kind::kPart, .rank = rank, .ranks = size}, 0);
    ranks_.barrier().wait(limit_);
    auto start = Clock::now();
    Pending pending = ranks_.all_reduce(tensor_, Reduce::kSum);
    if (busy != nullptr) {
      busy(time);
      start = Clock::now();
    }
    const at::Tensor sum = std::move(pending).wait(limit_);
    const double seconds = since(start).count();
    right_ =
        right_ && matches(sum, {.kind = Pattern::Kind::kTotal, .rank = rank, .ranks = size}, 0);
    return seconds;
  }

  OverlapResult conclude(double alone, const std::vector<Caller>& callers,
                         const std::vector<std::vector<double>>& blocked_beside) {
    OverlapResult result;
    result.seconds_alone = over_ranks(ranks_, alone, limit_);
    for (std::size_t c = 0; c < callers.size(); ++c) {
      const double own = median(blocked_beside[c]);
      const double overlap = std::clamp(1 - own / alone, 0.0, 1.0);
      result.callers.push_back({.caller = callers[c].name,
                                .seconds_blocked = over_ranks(ranks_, own, limit_),
                                .overlap = over_ranks(ranks_, overlap, limit_)});
    }
    result.verified = all_agree(ranks_, right_, limit_);
    return result;
  }

  Communicator& ranks_;
  Seconds limit_;
  const BenchOverlapOptions& options_;
  at::Tensor tensor_;
  bool right_ = true;
};

void print_json(const World& world, const BenchOverlapOptions& options,
                const OverlapResult& result) {
  ordered_json callers = ordered_json::array();
  for (const CallerResult& one : result.callers) {
    callers.push_back({{"caller", one.caller},
                       {"overlap", one.overlap.smallest},
                       {"overlap_mean", one.overlap.mean},
                       {"seconds_blocked", one.seconds_blocked.largest}});
  }
  const ordered_json report = {{"command", "bench overlap"},
                               {"backend", world.backend()},
                               {"nodes", world.topology().nodes()},
                               {"ranks", world.size()},
                               {"bytes", options.bytes},
                               {"iterations", options.iterations},
                               {"seconds_alone", result.seconds_alone.largest},
                               {"overlap", result.callers.front().overlap.smallest},
                               {"callers", callers},
                               {"verified", result.verified}};
  fmt::print("{}\n", report.dump(2));
}

void print_table(const World& world, const BenchOverlapOptions& options,
                 const OverlapResult& result) {
  fmt::print("all_reduce of {} bytes on {} ranks on {} nodes, backend {}: {} alone\n\n",
             format_bytes(options.bytes), world.size(), world.topology().nodes(), world.backend(),
             format_seconds(result.seconds_alone.largest));
  const Table table({{"caller", 10, /*left=*/true}, {"blocked", 10}, {"overlap", 7}, {"mean", 7}});
  fmt::print("{}\n", table.header());
  for (const CallerResult& one : result.callers) {
    fmt::print("{}\n", table.row({one.caller, format_seconds(one.seconds_blocked.largest),
                                  fmt::format("{:.3f}", one.overlap.smallest),
                                  fmt::format("{:.3f}", one.overlap.mean)}));
  }
}

int measure(World& world, const BenchOverlapOptions& options) {
  const OverlapResult result = OverlapBench(world, options).measure();
  if (world.rank() == 0) {
    options.json ? print_json(world, options, result) : print_table(world, options, result);
    if (!result.verified) fmt::print(stderr, "daso: all_reduce gave wrong results\n");
  }
  return result.verified ? kExitOk : kExitBug;
}

std::int64_t parse_size(const std::string& flag, const std::string& text) {
  const std::vector<std::int64_t> sizes = parse_sizes(flag, text);
  require(sizes.size() == 1, "{} takes one size here, got '{}'", flag, text);
  constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(float));
  require(sizes.front() >= kElementBytes && sizes.front() % kElementBytes == 0,
          "{} takes a whole number of float32 elements, which have 4 bytes, got '{}'", flag, text);
  return sizes.front();
}

int act(const BenchOverlapOptions& options, const Invocation& invocation) {
  const Configuration configuration = {{"sizes", format_bytes(options.bytes)},
                                       {"caller", join(options.callers, ",")},
                                       {"iterations", std::to_string(options.iterations)}};
  return on_ranks({"bench overlap", options.launch, kSmallCluster, configuration},
                  invocation.arguments, [&](World& world) { return measure(world, options); });
}

}  // namespace

Command add_bench_overlap(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("overlap", "How much of an all_reduce hides behind other work");
  const auto options = std::make_shared<BenchOverlapOptions>();
  const auto add = [app](const char* name, const char* type, const char* meaning, auto take) {
    return app->add_option_function<std::string>(name, take, meaning)->type_name(type);
  };
  add("--sizes,--bytes", "BYTES", "Bytes of the tensor, like 16M", [=](const std::string& text) {
    options->bytes = parse_size("--sizes", text);
  })->default_str(format_bytes(options->bytes));
  add("--caller", "LIST", "What the caller does meanwhile", [=](const std::string& text) {
    options->callers = parse_choices("--caller", text, {"sleeps", "computes"});
  })->default_str(join(options->callers, ","));
  add("--iterations", "N", "Rounds; the medians count", [=](const std::string& text) {
    options->iterations = parse_count("--iterations", text, kFewestRounds);
  })->default_str(std::to_string(options->iterations));
  app->add_flag("--json", options->json, "Print one JSON object");
  add_launch_flags(*app, options->launch, kSmallCluster);
  add_world_flags(*app, options->launch);
  app->footer("docs/measuring.md defines every number.");
  return {app, [options](const Invocation& invocation) { return act(*options, invocation); }};
}

}  // namespace daso::cli
