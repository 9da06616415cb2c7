// SPDX-License-Identifier: Apache-2.0
// Ranks that nobody has launched: whoever started them, as Kubernetes' PyTorchJob does, has set the
// variables that PyTorch reads and no others.
#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/comm/network.h"
#include "process.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

constexpr Seconds kPatience{120};

std::string free_port() { return std::to_string(bound_address(listen_on({"127.0.0.1", 0})).port); }

// Starts the command as so many ranks, the last first, and expects all of them to end well. Returns
// what rank 0 printed.
std::string output_of(int ranks, const std::vector<std::string>& command) {
  std::map<std::string, std::string> variables = {{"WORLD_SIZE", std::to_string(ranks)},
                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                  {"MASTER_PORT", free_port()},
                                                  {"OMP_NUM_THREADS", "1"}};
  std::vector<Process> processes;
  for (int rank = ranks - 1; rank >= 0; --rank) {
    variables["RANK"] = std::to_string(rank);
    processes.emplace_back(command, variables);
  }
  for (Process& process : processes) {
    EXPECT_EQ(process.wait(kPatience).code, kExitOk) << process.standard_error();
  }
  return processes.back().standard_output();
}

TEST(PyTorchsVariablesAlone, BringTheRanksOfAProgramTogether) {
  for (const int ranks : {2, 4}) {
    const std::string output = output_of(ranks, {DASO_CONFORMANCE_JOB, "gloo"});
    EXPECT_NE(output.find(fmt::format("conforms with {} ranks", ranks)), std::string::npos)
        << output;
  }
}

TEST(PyTorchsVariablesAlone, TrainAModel) {
  for (const int ranks : {2, 4}) {
    const ScratchFolder scratch;
    const std::string out = (scratch.path() / "run").string();
    output_of(ranks,
              {DASO_PROGRAM, "train", "--data", "idx:" DASO_DIGITS, "--model", "mlp", "--epochs",
               "1", "--nodes", "2", "--ranks-per-node", std::to_string(ranks / 2), "--out", out});
    EXPECT_TRUE(std::filesystem::exists(scratch.path() / "run" / "summary.json"));
  }
}

}  // namespace
}  // namespace daso::test
