// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/slurm.h"

#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

constexpr std::uint64_t kFirstPort = 20000;
constexpr std::uint64_t kPorts = 10000;
// Steps from here on are Slurm's own (the batch script, an interactive shell), not srun's.
constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;

// Reads a list from its beginning until it has enough hosts.
class HostList {
 public:
  explicit HostList(std::size_t most) : most_(most) {}

  // False where it is no list of hosts.
  bool read(const std::string& list) {
    std::size_t from = 0;
    while (from < list.size() && !full()) {
      std::size_t end = from;  // the comma behind this entry: one that is in no bracket
      for (bool inside = false; end < list.size() && (inside || list[end] != ','); ++end) {
        if (list[end] == '[' || list[end] == ']') inside = list[end] == '[';
      }
      if (end == from || !expand("", list.substr(from, end - from))) return false;
      from = end + 1;
    }
    return !hosts_.empty();
  }

  const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  bool full() const { return hosts_.size() >= most_; }

  // One entry, whose beginning is settled: n[1-2]-ib, r[0-3]n[01-16].
  bool expand(const std::string& settled, const std::string& rest) {
    const std::size_t open = rest.find('[');
    if (open == std::string::npos) {
      hosts_.push_back(settled + rest);
      return true;
    }
    const std::size_t close = rest.find(']', open);
    if (close == std::string::npos) return false;
    const std::string head = settled + rest.substr(0, open);
    const std::vector<std::string> ranges = split(rest.substr(open + 1, close - open - 1), ',');
    return !ranges.empty() && std::ranges::all_of(ranges, [&](const std::string& range) {
      return count_through(head, range, rest.substr(close + 1));
    });
  }

  // A range like 01-04, or one number; numbers keep their width.
  bool count_through(const std::string& head, const std::string& range, const std::string& tail) {
    const std::vector<std::string> ends = split(range, '-');
    const auto digits = [](const std::string& text) {
      return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    };
    if (ends.empty() || ends.size() > 2 || !std::ranges::all_of(ends, digits)) return false;
    const std::optional<std::int64_t> first = parse_integer(ends.front());
    const std::optional<std::int64_t> last = parse_integer(ends.back());
    if (!first || !last || *last < *first) return false;
    for (std::int64_t number = *first; number <= *last && !full(); ++number) {
      const std::string text = fmt::format("{:0{}}", number, ends.front().size());
      if (!expand(head + text, tail)) return false;
    }
    return true;
  }

  const std::size_t most_;
  std::vector<std::string> hosts_;
};

}  // namespace

bool in_slurm_step(const Environment& environment) {
  if (!find(environment, "SLURM_PROCID")) return false;
  const std::optional<std::string> step = find(environment, "SLURM_STEP_ID");
  if (!step) return find(environment, "SLURM_STEP_NUM_TASKS").has_value();
  const std::optional<std::int64_t> number = parse_integer(*step);
  require(number.has_value(),
          "environment variable SLURM_STEP_ID is '{}'; it must be a whole number", *step);
  return *number < kFirstSpecialStep;
}

std::vector<std::string> slurm_hosts(const std::string& variable, const std::string& list,
                                     std::size_t most) {
  HostList hosts(most);
  require(hosts.read(list),
          "environment variable {} is '{}'; a list of hosts like n[01-04],m3 is expected", variable,
          list);
  return hosts.hosts();
}

std::string slurm_step(const Environment& environment) {
  const std::optional<std::string> job = find(environment, "SLURM_JOB_ID");
  require(job && parse_integer(*job),
          "environment variable SLURM_PROCID is set but SLURM_JOB_ID is {}; it must be a whole "
          "number",
          job ? fmt::format("'{}'", *job) : "not");
  return fmt::format("{}.{}", *job, find(environment, "SLURM_STEP_ID").value_or("0"));
}

SlurmTasks one_task_a_host(const Environment& environment) {
  const auto number = [&](const char* name) {
    const std::optional<std::string> text = find(environment, name);
    const std::optional<std::int64_t> value = text ? parse_integer(*text) : std::nullopt;
    require(value.has_value(), "environment variable {} is {}; srun sets it to a whole number",
            name, text ? fmt::format("'{}'", *text) : "not set");
    return *value;
  };
  const bool of_step = find(environment, "SLURM_STEP_NUM_TASKS").has_value();
  const std::int64_t tasks = number(of_step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  const std::int64_t own = number("SLURM_NODEID");
  const std::string list = find(environment, "SLURM_STEP_NODELIST").value_or("");
  SlurmTasks found{
      .hosts = slurm_hosts("SLURM_STEP_NODELIST", list, static_cast<std::size_t>(tasks) + 1),
      .own = static_cast<int>(own)};
  require(
      std::ssize(found.hosts) == tasks && own < tasks,
      "to go on when a node is lost srun starts one launcher on each machine (ntasks-per-node is "
      "1), which starts the ranks; it has started {} tasks on {}",
      tasks, list);
  return found;
}

std::uint16_t slurm_port(const std::string& step) {
  constexpr int kHexadecimal = 16;
  const std::uint64_t number = std::stoull(digest(step), nullptr, kHexadecimal);
  return static_cast<std::uint16_t>(kFirstPort + number % kPorts);
}

}  // namespace daso
