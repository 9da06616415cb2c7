// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/pair_check.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/machine.h"
#include "cli/table.h"
#include "daso/base/cpu.h"
#include "daso/base/error.h"
#include "daso/base/gpus.h"
#include "daso/base/module.h"
#include "daso/base/text.h"
#include "daso/comm/network.h"
#include "daso/launch/ranks.h"
#include "daso/tensor/bf16.h"

namespace daso::cli {
namespace {

using namespace bench;

using nlohmann::ordered_json;
using Rows = std::vector<std::pair<std::string, std::string>>;

struct DoctorOptions {
  LaunchFlags launch;
  bool json = false;
};

std::string gibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// One part of the report, in both forms.
struct Part {
  std::string key;
  ordered_json as_json;
  std::string as_text;
};

Part versions_part() {
  Rows rows = versions();
  for (const BackendStatus& backend : backends()) {
    if (backend.name == "mpi")
      rows.emplace_back("mpi", backend.available ? backend.detail : "none");
  }
  ordered_json object = ordered_json::object();
  for (const auto& [name, version] : rows) object[name] = version;
  return {"versions", object, section("Versions", rows)};
}

Part backends_part() {
  Rows rows;
  ordered_json list = ordered_json::array();
  for (const BackendStatus& backend : backends()) {
    list.push_back(
        {{"name", backend.name}, {"available", backend.available}, {"detail", backend.detail}});
    rows.emplace_back(backend.name,
                      fmt::format("{}: {}", backend.available ? "yes" : "no", backend.detail));
  }
  return {"backends", list, section("Backends", rows)};
}

Part cpu_part() {
  const Cpu cpu = this_cpu();
  const Amx amx = find_amx();
  std::vector<std::string> sets = cpu.instruction_sets;
  if (amx == Amx::kUsable) sets.emplace_back("amx");
  const std::string cores = fmt::format("{} of {}", cpu.cores, cpu.cores_online);
  return {"cpu",
          {{"model", cpu.model},
           {"cores", cpu.cores},
           {"cores_online", cpu.cores_online},
           {"instruction_sets", sets},
           {"amx", text_of(amx)}},
          section("CPU", {{"model", cpu.model},
                          {"cores usable", cores},
                          {"instruction sets",
                           sets.empty() ? "none of those looked for" : join(sets, ", ")},
                          {"AMX", text_of(amx)}})};
}

Part memory_part() {
  const Memory memory = this_memory();
  return {"memory",
          {{"total_bytes", memory.total_bytes}, {"available_bytes", memory.available_bytes}},
          section("Memory", {{"total", gibibytes(memory.total_bytes)},
                             {"available", gibibytes(memory.available_bytes)}})};
}

std::string text_of_peers(const std::vector<std::pair<int, int>>& peers, std::size_t gpus) {
  if (peers.empty()) return "none";
  if (peers.size() == gpus * (gpus - 1) / 2) return "between all";
  std::vector<std::string> pairs;
  for (const auto& [first, second] : peers) pairs.push_back(fmt::format("{}-{}", first, second));
  return join(pairs, ", ");
}

Part gpus_part() {
  const GpuDriver& driver = gpu_driver();
  const GpuUse use = use_of_gpus();
  Rows rows;
  ordered_json object = {{"usable", use.problem.empty()}, {"problem", use.problem}};
  object["devices"] = ordered_json::array();
  for (const Gpu& gpu : driver.gpus) {
    const std::string capability = fmt::format("{}.{}", gpu.major, gpu.minor);
    const bool built = built_for(use.architectures, gpu);
    const bool left_out = use.problem.empty() && !built;
    rows.emplace_back(fmt::format("GPU {}", rows.size()),
                      fmt::format("{}, compute capability {}, {}, PCI {}{}", gpu.name, capability,
                                  gibibytes(gpu.memory_bytes), gpu.bus,
                                  left_out ? "; not used: the module was not built for it" : ""));
    object["devices"].push_back({{"name", gpu.name},
                                 {"compute_capability", capability},
                                 {"memory_bytes", gpu.memory_bytes},
                                 {"pci", gpu.bus},
                                 {"usable", use.problem.empty() && built}});
  }
  object["peers"] = ordered_json::array();
  if (driver.gpus.size() > 1) {
    const std::vector<std::pair<int, int>> peers = gpu_peers();
    object["peers"] = peers;
    rows.emplace_back("peer access", text_of_peers(peers, driver.gpus.size()));
  }
  object["driver"] = nullptr;
  if (driver.there) {
    const std::string cuda = cuda_version_text(driver.cuda);
    object["driver"] = {{"release", driver.release}, {"cuda", cuda}};
    rows.emplace_back(
        "driver",
        fmt::format("{}, for CUDA {}", driver.release.empty() ? "there" : driver.release, cuda));
  }
  const bool built = module_is_built("cuda");
  object["module"] = {{"there", built}};
  if (use.module.empty()) rows.emplace_back("CUDA module", built ? "built" : "not built");
  for (const auto& [name, text] : use.module) {
    object["module"][name] = text;
    rows.emplace_back(name == "built" ? "CUDA module" : name, text);
  }
  rows.emplace_back("used", use.problem.empty() ? "yes" : fmt::format("no: {}", use.problem));
  return {"gpus", object, section("GPUs", rows)};
}

Part network_part() {
  Rows rows;
  ordered_json list = ordered_json::array();
  for (const NetworkDevice& device : network_devices()) {
    ordered_json one = {{"name", device.name}, {"address", device.address}, {"up", device.up}};
    one["megabits_per_second"] = nullptr;
    std::string text = fmt::format("{:<4}  {}", device.up ? "up" : "down",
                                   device.address.empty() ? "no address" : device.address);
    if (device.megabits_per_second) {
      one["megabits_per_second"] = *device.megabits_per_second;
      text += fmt::format(", {} Mbit/s", *device.megabits_per_second);
    }
    list.push_back(one);
    rows.emplace_back(device.name, text);
  }
  return {"network", list, section("Network devices", rows)};
}

Part topology_part(const World& world, const std::string& launcher) {
  const Topology& topology = world.topology();
  Rows rows = {{"ranks", std::to_string(world.size())},
               {"nodes", std::to_string(topology.nodes())},
               {"started by", launcher},
               {"backend", world.backend()}};
  ordered_json nodes = ordered_json::array();
  for (int node = 0; node < topology.nodes(); ++node) {
    const std::vector<int>& ranks = topology.ranks_of(node);
    const std::string& host = world.host_of(ranks.front());
    nodes.push_back({{"name", topology.name_of(node)}, {"host", host}, {"ranks", ranks}});
    rows.emplace_back(topology.name_of(node),
                      fmt::format("rank {} on host {}", fmt::join(ranks, ", "), host));
  }
  return {"topology",
          {{"ranks", world.size()},
           {"nodes", nodes},
           {"launcher", launcher},
           {"backend", world.backend()}},
          section("Topology", rows)};
}

Part packages_part() {
  Rows rows;
  ordered_json list = ordered_json::array();
  std::vector<std::string> names;
  for (const MissingPackage& package : missing_packages()) {
    list.push_back({{"package", package.name}, {"purpose", package.purpose}});
    rows.emplace_back(package.name, "for " + package.purpose);
    names.push_back(package.name);
  }
  std::string text;
  if (!names.empty()) {
    rows.emplace_back("to install", "apt-get install " + join(names, " "));
    text = section("Missing optional packages", rows);
  }
  return {"missing_packages", list, text};
}

Part pairs_part(const World& world, const std::vector<PairResult>& results) {
  const Topology& topology = world.topology();
  Rows rows;
  ordered_json list = ordered_json::array();
  for (const PairResult& pair : results) {
    const std::string& first = topology.name_of(pair.first_node);
    const std::string& second = topology.name_of(pair.second_node);
    list.push_back({{"nodes", {first, second}},
                    {"latency_seconds", pair.latency_seconds},
                    {"bandwidth", pair.bytes_per_second}});
    rows.emplace_back(fmt::format("{} - {}", first, second),
                      fmt::format("latency {}, {} GB/s", format_seconds(pair.latency_seconds),
                                  format_gigabytes(pair.bytes_per_second)));
  }
  if (results.empty()) rows.emplace_back("none", "there is one node only");
  return {"pairs", list, section("Pairs of nodes", rows)};
}

// The parts in their order; text goes out part by part, JSON at the end.
class Report {
 public:
  explicit Report(const DoctorOptions& options) : as_json_(options.json) {}

  void add(const Part& part) {
    object_[part.key] = part.as_json;
    if (as_json_ || part.as_text.empty()) return;
    fmt::print("{}\n", part.as_text);
    std::fflush(stdout);
  }

  void finish(bool usable) {
    object_["usable"] = usable;
    if (as_json_) fmt::print("{}\n", object_.dump(2));
    if (!as_json_ && usable) fmt::print("daso can be used here.\n");
    std::fflush(stdout);
  }

 private:
  bool as_json_;
  ordered_json object_ = {{"command", "doctor"}};
};

void add_machine(Report& report) {
  report.add(versions_part());
  report.add(backends_part());
  report.add(cpu_part());
  report.add(memory_part());
  report.add(gpus_part());
  report.add(network_part());
  report.add(packages_part());
}

// Every rank takes part in the check, rank 0 reports.
int examine(World& world, const DoctorOptions& options) {
  const std::optional<Place> place = place_from(this_environment());
  Report report(options);
  if (world.rank() == 0) {
    add_machine(report);
    report.add(topology_part(world, place ? name_of(place->launcher) : "hand"));
  }
  try {
    const std::vector<PairResult> pairs = check_pairs(world);
    if (world.rank() != 0) return kExitOk;
    if (world.size() > 1) report.add(pairs_part(world, pairs));
    report.finish(/*usable=*/true);
    return kExitOk;
  } catch (const Error&) {
    if (world.rank() == 0) report.finish(/*usable=*/false);
    throw;
  }
}

}  // namespace

Command add_doctor(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("doctor", "What is here, and does it work");
  const auto options = std::make_shared<DoctorOptions>();
  app->add_flag("--json", options->json, "Print one JSON object");
  add_launch_flags(*app, options->launch, kOneRank);
  add_world_flags(*app, options->launch);
  app->footer("With several ranks it also tries the network between every pair of nodes.");
  return {app, [options](const Invocation& invocation) {
            cap_instruction_sets();
            return on_ranks({"doctor", options->launch, kOneRank, {}}, invocation.arguments,
                            [&](World& world) { return examine(world, *options); });
          }};
}

}  // namespace daso::cli
