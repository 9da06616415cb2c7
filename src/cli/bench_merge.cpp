// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/copy_speed.h"
#include "bench/gpu_passes.h"
#include "cli/command.h"
#include "cli/table.h"
#include "daso/base/error.h"
#include "daso/base/seconds.h"
#include "daso/base/text.h"
#include "daso/base/values.h"
#include "daso/kernels/merge.h"
#include "daso/kernels/update.h"
#include "daso/tensor/device.h"

namespace daso::cli {
namespace {

using namespace bench;

using nlohmann::ordered_json;

struct BenchMergeOptions {
  int parameters = 25'600'000;  // as many as ResNet-50 has
  std::string wire = "int8";
  std::string merge = "corrected";
  int iterations = 30;
  DeviceChoice device{.kind = DeviceChoice::Kind::kCpu};
  bool json = false;
};

// A model's worth of numbers, such as an exchange finds them.
struct Model {
  Wire wire;
  AlignedVector<float> parameters;
  AlignedVector<float> anchor;
  AlignedVector<float> sent;  // the parameters at the start; paper alone reads them
  AlignedVector<float> gradients;
  AlignedVector<float> velocity;
  AlignedVector<std::byte> own;
  AlignedVector<std::byte> back;

  Model(Wire kind, std::size_t elements)
      : wire(kind),
        parameters(elements),
        anchor(elements),
        sent(elements),
        gradients(elements),
        velocity(elements),
        own(encoded_bytes(kind, elements)),
        back(own.size()) {
    std::minstd_rand random(1);
    std::uniform_real_distribution<float> any(-1, 1);
    for (std::size_t i = 0; i < elements; ++i) {
      anchor[i] = any(random);
      gradients[i] = any(random);
      parameters[i] = anchor[i] - 1e-3F * gradients[i];
    }
    sent = parameters;
    encode_own();
    back = own;
  }

  void encode_own() {
    if (!encode(wire, parameters, anchor, own)) throw Error("the numbers of the bench overflow");
  }
};

// One kernel: what it must read and write at least, and how fast it was.
struct MergeCandidate {
  std::string name;
  std::size_t bytes = 0;
  std::function<void()> run;
  double seconds = std::numeric_limits<double>::infinity();       // best of the rounds
  double copy_seconds = std::numeric_limits<double>::infinity();  // of a copy of as many bytes

  double share() const { return copy_seconds / seconds; }
};

std::vector<MergeCandidate> candidates_of(Model& model, const std::string& rule) {
  const std::size_t floats = model.parameters.size() * sizeof(float);
  const std::size_t encoded = model.own.size();
  const Merge merge{model.wire, model.own, model.back, model.parameters, model.anchor};
  const auto corrected = [merge] { merge_corrected(merge); };
  const auto paper = [merge, &model] {
    merge_paper(merge, {.sent = model.sent, .staleness = 1, .peers = 4});
  };
  const auto update = [&model] {
    const SgdStep step{.learning_rate = 1e-6F, .momentum = 0.9F};
    sgd_update(step, OneRun(model.parameters.size(), 1e-4), model.gradients, model.parameters,
               model.velocity);
  };
  std::vector<MergeCandidate> all;
  // Reads parameters and anchor.
  all.push_back({"encode", 2 * floats + encoded, [&model] { model.encode_own(); }});
  // Reads both encoded forms; reads and writes parameters and anchor.
  if (rule == "paper") {
    all.push_back({"merge", 5 * floats + 2 * encoded, paper});  // and reads what was sent
  } else {
    all.push_back({"merge", 4 * floats + 2 * encoded, corrected});
  }
  // Reads the gradients; reads and writes parameters and momentum.
  all.push_back({"update", 5 * floats, update});
  return all;
}

// Copies and kernels take turns, so that all see the same state of the machine.
void measure(std::vector<MergeCandidate>& candidates, int iterations) {
  std::size_t most = 0;
  for (const MergeCandidate& one : candidates) most = std::max(most, one.bytes);
  CopySpeed copy(most);
  for (int i = 0; i < iterations; ++i) {
    for (MergeCandidate& one : candidates) {
      one.copy_seconds = std::min(one.copy_seconds, copy.seconds(one.bytes));
      const auto start = Clock::now();
      one.run();
      one.seconds = std::min(one.seconds, since(start).count());
    }
  }
}

void print_table(const std::vector<MergeCandidate>& candidates) {
  const Table table({{"kernel", 8, /*left=*/true},
                     {"bytes", 10},
                     {"time", 10},
                     {"GB/s", 8},
                     {"copy GB/s", 9},
                     {"share", 6}});
  fmt::print("{}\n", table.header());
  for (const MergeCandidate& one : candidates) {
    const auto bytes = static_cast<double>(one.bytes);
    fmt::print("{}\n", table.row({one.name, std::to_string(one.bytes), format_seconds(one.seconds),
                                  format_gigabytes(bytes / one.seconds),
                                  format_gigabytes(bytes / one.copy_seconds),
                                  fmt::format("{:.3f}", one.share())}));
  }
}

ordered_json json_of(const std::vector<MergeCandidate>& candidates) {
  ordered_json all = ordered_json::array();
  for (const MergeCandidate& one : candidates) {
    all.push_back({{"kernel", one.name},
                   {"bytes", one.bytes},
                   {"seconds", one.seconds},
                   {"copy_seconds", one.copy_seconds},
                   {"share", one.share()}});
  }
  return all;
}

std::vector<MergeCandidate> measure_cpu(const BenchMergeOptions& options, std::size_t elements) {
  Model model(find_wire(options.wire).value(), elements);
  std::vector<MergeCandidate> candidates = candidates_of(model, options.merge);
  measure(candidates, options.iterations);
  return candidates;
}

std::vector<MergeCandidate> measure_gpu(const BenchMergeOptions& options, std::size_t elements,
                                        const at::Device& device) {
  std::vector<MergeCandidate> candidates;
  for (const GpuPass& pass : time_gpu_passes({.elements = static_cast<std::int64_t>(elements),
                             .wire = find_wire(options.wire).value(),
                             .paper = options.merge == "paper",
                             .iterations = options.iterations},
                                             device)) {
    candidates.push_back({.name = pass.name,
                          .bytes = static_cast<std::size_t>(pass.bytes),
                          .seconds = pass.seconds,
                          .copy_seconds = pass.copy_seconds});
  }
  return candidates;
}

int act(const BenchMergeOptions& options) {
  // Whole blocks, as a flat model has them.
  const auto asked = static_cast<std::size_t>(options.parameters);
  const std::size_t elements = (asked + kBlockElements - 1) / kBlockElements * kBlockElements;
  const auto [device, note] = find_device(options.device, 0);
  const bool on_cpu = device.is_cpu();
  if (!note.empty()) fmt::print(stderr, "daso: {}\n", note);
  const std::vector<MergeCandidate> candidates =
      on_cpu ? measure_cpu(options, elements) : measure_gpu(options, elements, device);
  const std::string set(name_of(best_instruction_set()));
  const std::string where = on_cpu ? set : gpu_of(device).name;
  if (!options.json) {
    fmt::print("{} parameters, wire {}, merge {}, {}{}\n\n", elements, options.wire, options.merge,
               where, on_cpu ? ", one thread" : "");
    print_table(candidates);
    return kExitOk;
  }
  ordered_json report = {{"command", "bench merge"},
                         {"parameters", elements},
                         {"wire", options.wire},
                         {"merge", options.merge},
                         {"device", device.str()}};
  report[on_cpu ? "instruction_set" : "gpu"] = where;
  report["iterations"] = options.iterations;
  report["results"] = json_of(candidates);
  fmt::print("{}\n", report.dump(2));
  return kExitOk;
}

}  // namespace

Command add_bench_merge(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("merge", "Passes over a model, against a copy of memory");
  const auto options = std::make_shared<BenchMergeOptions>();
  const auto add = [app](const char* name, const char* type, const char* meaning, auto take) {
    return app->add_option_function<std::string>(name, take, meaning)->type_name(type);
  };
  add("--parameters", "N", "Elements of the model", [=](const std::string& text) {
    options->parameters = parse_count("--parameters", text, 1);
  })->default_str(std::to_string(options->parameters));
  const std::string wires = "What travels: " + join(wire_names(), ", ");
  add("--wire", "WIRE", wires.c_str(), [=](const std::string& text) {
    options->wire = parse_choice("--wire", text, wire_names());
  })->default_str(options->wire);
  add("--merge", "RULE", "How it is merged: corrected, paper", [=](const std::string& text) {
    options->merge = parse_choice("--merge", text, {"corrected", "paper"});
  })->default_str(options->merge);
  add("--iterations", "N", "Rounds of which the best counts", [=](const std::string& text) {
    options->iterations = parse_count("--iterations", text, 1);
  })->default_str(std::to_string(options->iterations));
  add("--device", "DEVICE", "Whose memory: cpu, cuda, cuda:N, or auto",
      [=](const std::string& text) { options->device = parse_device(text); })
      ->default_str("cpu");
  app->add_flag("--json", options->json, "Print one JSON object");
  app->footer("docs/measuring.md defines every number.");
  return {app, [options](const Invocation&) { return act(*options); }};
}

}  // namespace daso::cli
