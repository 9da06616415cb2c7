// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "daso/run/session.h"

// Runs on ranks that are threads.
namespace daso::test {

// An mlp on small images: 8 steps an epoch on 2 ranks, 3 epochs.
Settings small_run(const std::filesystem::path& out);

// Called on a rank after each of its steps, from 1 on; true asks the run to stop.
using AfterStep = std::function<bool(int rank, int step)>;
struct RunOptions {
  std::vector<std::string> nodes = {"a", "b"};  // node of each rank
  AfterStep after_step;
  OnProgress on_progress;
  at::Device device = at::Device(at::kCPU);  // of all ranks
};

// What ranks end with.
std::vector<Summary> train(const Settings& options, const RunOptions& run = {});

// Parameters, optimizer and what each rank has of its own, in the last checkpoint of a run.
std::string result_in(const std::filesystem::path& out);
std::string bytes_of(const std::filesystem::path& file);

}  // namespace daso::test
