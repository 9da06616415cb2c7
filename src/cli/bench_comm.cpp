// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/operations.h"
#include "bench/statistics.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/table.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/values.h"
#include "daso/launch/ranks.h"
#include "daso/run/rank_device.h"

namespace daso::cli {
namespace {

using namespace bench;

using nlohmann::ordered_json;

constexpr int kWarmup = 2;
// Without --iterations there are as many as fit into this time.
constexpr double kMeasuredSeconds = 0.3;
constexpr int kFewest = 3;
constexpr int kMost = 200;

struct BenchCommOptions {
  LaunchFlags launch;
  std::vector<std::string> operations = bench_operation_names();
  std::vector<std::int64_t> sizes;  // bytes
  std::string type = "float32";
  std::optional<int> iterations;                          // none: see kMeasuredSeconds
  int warmup = kWarmup;                                   // iterations before those that are timed
  DeviceChoice device{.kind = DeviceChoice::Kind::kCpu};  // where the tensors lie
  bool json = false;
};

std::vector<std::int64_t> default_sizes() {
  constexpr std::int64_t kFirst = 1 << 10;
  constexpr std::int64_t kLast = 1 << 28;
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = kFirst; bytes <= kLast; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

std::string text_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> words;
  for (const std::int64_t bytes : sizes) words.push_back(format_bytes(bytes));
  return join(words, ",");
}

std::int64_t element_bytes(const BenchCommOptions& options) {
  return static_cast<std::int64_t>(c10::elementSize(type_of(options.type)));
}

void validate(const BenchCommOptions& options) {
  for (const std::int64_t bytes : options.sizes) {
    require(bytes % element_bytes(options) == 0,
            "--sizes: {} is no whole number of {} elements, which have {} bytes",
            format_bytes(bytes), options.type, element_bytes(options));
  }
  require(options.iterations || options.warmup >= 1,
          "--warmup 0 leaves nothing to find the number of iterations from; give --iterations");
}

// One operation at one size.
struct Measurement {
  std::string operation;
  std::int64_t bytes = 0;  // of the full tensor
  int iterations = 0;
  OverRanks seconds;  // of one iteration, over the ranks
  double bus_factor = 0;
  bool verified = false;

  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds.largest; }
  double bus_bandwidth() const { return bus_factor * algorithm_bandwidth(); }
};

class Bench {
 public:
  Bench(World& world, const BenchOperation& operation, std::int64_t bytes,
        const BenchCommOptions& options, at::Device device)
      : ranks_(world.everyone()),
        limit_(world.limit()),
        operation_(operation),
        options_(options),
        bytes_(bytes),
        elements_(bytes / element_bytes(options)),
        device_(device),
        buffers_(moved_to(device, operation.allocate(ranks_, elements_, type_of(options.type)))) {}

  Measurement measure() {
    const bool right_before = right();
    buffers_.input.zero_();  // sums of sums would leave the type's range
    const double estimate = time(options_.warmup).largest;
    const int iterations = options_.iterations.value_or(iterations_for(estimate));
    const OverRanks seconds = time(iterations);
    const bool right_after = right();
    return {.operation = operation_.name,
            .bytes = bytes_,
            .iterations = iterations,
            .seconds = seconds,
            .bus_factor = operation_.bus_factor(ranks_.size()),
            .verified = all_agree(ranks_, right_before && right_after, limit_)};
  }

 private:
  static int iterations_for(double seconds) {
    const double fit = std::floor(kMeasuredSeconds / std::max(seconds, 1e-9));
    return static_cast<int>(std::clamp<double>(fit, kFewest, kMost));
  }

  bool right() {
    buffers_.output.zero_();  // what is left of the last time must not pass
    operation_.fill(ranks_, elements_, buffers_);
    operation_.perform(ranks_, buffers_, limit_);
    return operation_.right(ranks_, elements_, buffers_);
  }

  // Seconds per iteration; the ranks begin together.
  OverRanks time(int iterations) {
    ranks_.barrier().wait(limit_);
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i) operation_.perform(ranks_, buffers_, limit_);
    finish_on(device_);
    return over_ranks(ranks_, since(start).count() / std::max(iterations, 1), limit_);
  }

  Communicator& ranks_;
  Seconds limit_;
  const BenchOperation& operation_;
  const BenchCommOptions& options_;
  std::int64_t bytes_;
  std::int64_t elements_;
  at::Device device_;
  Buffers buffers_;
};

ordered_json json_of(const Measurement& one) {
  return {
      {"operation", one.operation},           {"bytes", one.bytes},
      {"iterations", one.iterations},         {"seconds", one.seconds.largest},
      {"seconds_mean", one.seconds.mean},     {"algorithm_bandwidth", one.algorithm_bandwidth()},
      {"bus_bandwidth", one.bus_bandwidth()}, {"verified", one.verified}};
}

Table make_table() {
  return Table({{"operation", 14, /*left=*/true},
                {"bytes", 6},
                {"iterations", 10},
                {"time", 10},
                {"algorithm GB/s", 14},
                {"bus GB/s", 8},
                {"verified", 8}});
}

std::string row_of(const Table& table, const Measurement& one) {
  return table.row({one.operation, format_bytes(one.bytes), std::to_string(one.iterations),
                    format_seconds(one.seconds.largest),
                    format_gigabytes(one.algorithm_bandwidth()),
                    format_gigabytes(one.bus_bandwidth()), one.verified ? "yes" : "WRONG"});
}

// Rows come as they are measured.
void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

int measure_all(World& world, const BenchCommOptions& options) {
  const bool rows = world.rank() == 0 && !options.json;
  const at::Device device = told_device(world, options.device);
  const Table table = make_table();
  if (rows) {
    print(fmt::format("{} ranks on {} nodes, backend {}, {}\n", world.size(),
                      world.topology().nodes(), world.backend(), options.type));
    print(table.header());
  }
  ordered_json results = ordered_json::array();
  bool verified = true;
  for (const std::string& name : options.operations) {
    for (const std::int64_t bytes : options.sizes) {
      const Measurement one = Bench(world, bench_operation(name), bytes, options, device).measure();
      verified = verified && one.verified;
      results.push_back(json_of(one));
      if (rows) print(row_of(table, one));
    }
  }
  if (world.rank() == 0 && options.json) {
    const ordered_json report = {{"command", "bench comm"},
                                 {"backend", world.backend()},
                                 {"nodes", world.topology().nodes()},
                                 {"ranks", world.size()},
                                 {"dtype", options.type},
                                 {"results", results},
                                 {"verified", verified}};
    print(report.dump(2));
  }
  if (world.rank() == 0 && !verified) {
    fmt::print(stderr, "daso: an operation gave wrong results; do not trust this network\n");
  }
  return verified ? kExitOk : kExitBug;
}

int act(const BenchCommOptions& options, const Invocation& invocation) {
  validate(options);
  const Configuration configuration = {
      {"operations", join(options.operations, ",")},
      {"sizes", text_of(options.sizes)},
      {"dtype", options.type},
      {"iterations", options.iterations ? std::to_string(*options.iterations) : "by time"},
      {"warmup", std::to_string(options.warmup)}};
  return on_ranks({"bench comm", options.launch, kSmallCluster, configuration},
                  invocation.arguments, [&](World& world) { return measure_all(world, options); });
}

}  // namespace

Command add_bench_comm(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("comm", "Time and bus bandwidth of each collective");
  const auto options = std::make_shared<BenchCommOptions>();
  options->sizes = default_sizes();
  const auto add = [app](const char* name, const char* type, const char* meaning, auto take) {
    return app->add_option_function<std::string>(name, take, meaning)->type_name(type);
  };
  add("--operations", "LIST", "What to measure", [=](const std::string& text) {
    options->operations = parse_choices("--operations", text, bench_operation_names());
  })->default_str(join(options->operations, ","));
  add("--sizes", "LIST", "Bytes of the full tensor, like 1K,1M", [=](const std::string& text) {
    options->sizes = parse_sizes("--sizes", text);
  })->default_str(text_of(options->sizes));
  add("--dtype", "TYPE", "Type of the elements", [=](const std::string& text) {
    options->type = parse_choice("--dtype", text, type_names());
  })->default_str(options->type);
  add("--iterations", "N", "How often to repeat; without it as often as fits into 0.3 s, 3 to 200",
      [=](const std::string& text) { options->iterations = parse_count("--iterations", text, 1); });
  add("--warmup", "N", "Iterations before those that are timed", [=](const std::string& text) {
    options->warmup = parse_count("--warmup", text, 0);
  })->default_str(std::to_string(kWarmup));
  add("--device", "NAME", "Where the tensors lie: cpu, cuda, cuda:N, auto",
      [=](const std::string& text) { options->device = parse_device(text); })
      ->default_str("cpu");
  app->add_flag("--json", options->json, "Print one JSON object");
  add_launch_flags(*app, options->launch, kSmallCluster);
  add_world_flags(*app, options->launch);
  app->footer("docs/measuring.md defines every number.");
  return {app, [options](const Invocation& invocation) { return act(*options, invocation); }};
}

}  // namespace daso::cli
