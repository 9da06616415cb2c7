// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "daso/launch/launch_flags.h"
#include "verify/golden_case.h"
#include "verify/verdict.h"

// Where the ranks of a golden training case come from.
namespace daso::verify {

struct VerifyFlags {
  LaunchFlags launch;
  std::vector<std::string> files;
  std::string only;                      // the case of this name; empty: all
  std::string ranks;                     // processes, threads; empty: processes
  std::optional<ExchangeKind> exchange;  // none: what suits the wire
  Wire wire = Wire::kFp32;
  bool json = false;
  std::optional<int> job_case;  // this process is a rank of a job for this case of the one file

  ExchangeKind exchange_kind() const;
};

// What became of a case.
struct Outcome {
  int code = 0;  // of a job that ended without a verdict, else 0
  Verdict verdict;
};

// A job of processes, started for this case. What its ranks print to standard error passes by.
Outcome on_processes(const VerifyFlags& flags, const GoldenCase& golden);
// Threads of this process.
Outcome on_threads(const VerifyFlags& flags, const GoldenCase& golden);
// One rank of the job that on_processes() has started. Returns its exit code.
int verify_job_rank(const VerifyFlags& flags, const Place& place, const GoldenCase& golden);

// The pieces that all kinds of ranks need: the node of each rank of a case; what must be equal on
// all ranks; and a world that is joined for one case and left again, in which the others learn at
// once of what ends this rank.
std::vector<int> node_of_rank(const TrainingCase& training);
std::string configuration_of(const VerifyFlags& flags, const GoldenCase& golden);
Verdict join_and_verify(const WorldOptions& options, const VerifyFlags& flags,
                        const GoldenCase& golden);

}  // namespace daso::verify
