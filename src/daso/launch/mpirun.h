// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daso/base/environment.h"
#include "daso/launch/exit_rule.h"
#include "daso/launch/launch_plan.h"

// How ranks are started through Open MPI's mpirun, and what it says about their ends. Pure.
namespace daso {

// Descriptors of the launcher that the ranks open through /proc, so that their output does not mix
// in mpirun's and the launcher learns of each of them by itself: which rank failed mpirun does not
// always say.
struct MpirunPipes {
  int launcher = 0;               // its process number
  int guardian = 0;               // takes the number of each rank's process group
  int news = 0;                   // takes what RankNews reads
  std::vector<int> output_error;  // two for each rank
};

// What the ranks tell: the number of their process group when they have opened their pipes, and how
// they ended.
class RankNews {
 public:
  void feed(std::string_view bytes);
  const std::vector<pid_t>& groups() const { return groups_; }
  // In their order. After the first bad end mpirun asks the others to end.
  const std::vector<RankEnd>& ends() const { return ends_; }
  bool any_bad() const;

 private:
  std::string rest_;
  std::vector<pid_t> groups_;
  std::vector<RankEnd> ends_;
};

// The words after "mpirun".
std::vector<std::string> mpirun_arguments(const std::vector<RankSpot>& spots,
                                          const std::vector<std::string>& command,
                                          const MpirunPipes& pipes, bool as_root);

Environment mpirun_environment(Environment inherited, const JobAddress& job);

// For ranks that could not tell: the end of the one that failed first, from what mpirun printed and
// its own exit code. Nothing where it names none.
std::optional<RankEnd> failed_rank(const std::string& report, int exit_code);

// The same without the paragraph by which mpirun says no more than that its exit code is not 0.
std::string without_phrase(std::string report);

}  // namespace daso
