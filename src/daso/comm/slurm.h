// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daso/base/environment.h"

// What Slurm's variables mean. A job has steps, one for every srun, and several may run at once.
namespace daso {

// Inside srun's step. A batch script has SLURM_PROCID too, but starts ranks and is none.
bool in_slurm_step(const Environment& environment);

// What tells this step from all others, "45001.0".
std::string slurm_step(const Environment& environment);

// The step's hosts where srun has started one task on each of them: the task of host `own` is this
// one. Throws ConfigError where there are more tasks, or the variables do not tell.
struct SlurmTasks {
  std::vector<std::string> hosts;
  int own = 0;
};
SlurmTasks one_task_a_host(const Environment& environment);

// The first hosts of a list in Slurm's short form, `most` of them: n[01-04,07],m3 begins with n01
// and n02. Throws ConfigError that names the variable.
std::vector<std::string> slurm_hosts(const std::string& variable, const std::string& list,
                                     std::size_t most);

// A port for a step: every rank finds the same one without asking, and two steps
// rarely share it. It lies below those that the kernel gives away by itself, from 32768 on.
std::uint16_t slurm_port(const std::string& step);

}  // namespace daso
