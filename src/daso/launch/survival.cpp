// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/survival.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "daso/launch/job.h"
#include "daso/launch/node_lives.h"
#include "daso/launch/view_keeper.h"

namespace daso {
namespace {

constexpr Seconds kBetweenTurns{0.1};
constexpr Seconds kForTheEnd{5};

bool has_others(const LaunchOptions& options) {
  return options.node_index && options.ranks_per_node.size() > 1;
}

class SurvivingJob {
 public:
  explicit SurvivingJob(const LaunchOptions& options)
      : options_(options),
        inherited_(this_environment()),
        program_(find_program(options.command.front(), inherited_)),
        lives_(options.survival->restarts),
        job_(options, {.takes_end = [this](const RankEnd& end) { return takes_end(end); },
                       .on_turn = [this] { return on_turn(); }}),
        views_({.ranks_per_node = options.ranks_per_node,
                .own = own_nodes(),
                .store = job_.address().store,
                .rules = rules(),
                .others = others(),
                .on_end = [this](int node, const membership::End& end) { heard(node, end); },
                .on_view = {},
                .on_finished = [this] { finished_elsewhere_ = true; }}) {}

  int run() {
    for (const int node : own_nodes()) start(node);
    views_.begin();
    job_.run();
    if (finished_) views_.finished();
    if (finished_elsewhere_ && job_.supervisor().ends().empty()) return job_.finish({});
    if (job_.supervisor().ends().empty()) {
      job_.say("all nodes are lost, and none is started again; the job ends with exit code 3");
      job_.finish({});
      return kExitPeer;
    }
    return job_.finish(job_.supervisor().ends());
  }

 private:
  std::vector<int> own_nodes() const {
    std::set<int> nodes;
    for (const RankSpot& spot : job_.spots()) nodes.insert(spot.node);
    return {nodes.begin(), nodes.end()};
  }

  membership::Options rules() const {
    membership::Options rules;
    rules.silence = options_.survival->silence;
    // One launcher that has all nodes: there is nobody else who could claim a half.
    rules.tie_break = !has_others(options_);
    return rules;
  }

  std::optional<OtherLaunchers> others() {
    if (!has_others(options_)) return std::nullopt;
    OtherLaunchers others{.key = job_.address().token, .joins = options_.survival->joins};
    const std::vector<Address> entries = launcher_addresses(options_);
    for (std::size_t node = 0; node < entries.size(); ++node) {
      if (static_cast<int>(node) == *options_.node_index) {
        others.listening = listen_on(entries[node]).release();
      } else {
        others.nodes[static_cast<membership::NodeId>(node)] = {
            addresses_of(entries[node].host).front(), entries[node].port};
      }
    }
    return others;
  }

  // On the thread of the views.
  void heard(int node, const membership::End& end) {
    const std::lock_guard lock(mutex_);
    ends_.emplace_back(node, end.reason);
  }

  std::vector<RankSpot> spots_of(int node) const {
    std::vector<RankSpot> spots = job_.spots();
    std::erase_if(spots, [&](const RankSpot& spot) { return spot.node != node; });
    return spots;
  }

  void start(int node) {
    lives_.started(node, since(start_));
    for (const RankSpot& spot : spots_of(node)) {
      const FileDescriptor line = views_.open_line(node, spot.local_rank);
      Environment environment = rank_environment(inherited_, options_, spot, job_.address());
      environment[kLineVariable] = std::to_string(line.get());
      ChildProcess rank({.path = program_,
                         .arguments = options_.command,
                         .environment = std::move(environment),
                         .node = job_.home_of(spot),
                         .line = line.get()},
                        job_.mask(), job_.announce_to());
      job_.listen_to(spot, rank.take_output(), rank.take_error());
      job_.supervisor().add_process(spot.rank, std::move(rank));
      running_[node].insert(spot.rank);
    }
  }

  const RankSpot& spot_of(int rank) const {
    return *std::ranges::find(job_.spots(), rank, &RankSpot::rank);
  }

  // A node's ranks die together; then it is seen whether it comes back.
  bool takes_end(const RankEnd& end) {
    const int node = spot_of(end.rank).node;
    std::set<int>& ranks = running_[node];
    ranks.erase(end.rank);
    const bool told_to_end = job_.supervisor().rule().passed_on.has_value();
    if (end.well()) finished_ = true;
    // An error of the run's own would come again, and on all nodes.
    const bool lost = end.signal != 0 || end.code == kExitPeer;
    if (!lost || told_to_end) return false;
    if (lost_.insert(node).second && !finished_) {
      const std::optional<std::string> reason = job_.reason_of(end.rank);
      job_.say(fmt::format("{} {}{}; node{} is lost, the others go on", job_.name_of(end.rank),
                           text(end), reason ? fmt::format(" ({})", *reason) : "", node));
    }
    if (!ranks.empty()) {
      views_.lost(node);
      for (const int mate : ranks) job_.supervisor().kill_process(mate);
      return true;
    }
    views_.lost(node);
    lost_.erase(node);
    if (!finished_ && !lives_.died(node, since(start_))) {
      job_.say(fmt::format("node{} is not started again", node));
    }
    return true;
  }

  SupervisorOptions::Turn on_turn() {
    const bool told_to_end = job_.supervisor().rule().passed_on.has_value();
    if (finished_ || told_to_end || finished_elsewhere_) lives_.forget_all();
    if (finished_ || finished_elsewhere_) kill_waiting();
    take_ends();
    while (const std::optional<int> node = lives_.due(since(start_))) {
      start(*node);
      views_.come_back(*node);
    }
    const std::optional<Seconds> pause = lives_.pause(since(start_));
    return {.again = std::min(kBetweenTurns, pause.value_or(kBetweenTurns)),
            .more_to_come = pause.has_value()};
  }

  // Nodes that the others go on without come back as if they had died.
  void take_ends() {
    std::vector<std::pair<int, membership::End::Reason>> ends;
    {
      const std::lock_guard lock(mutex_);
      ends.swap(ends_);
    }
    for (const auto& [node, reason] : ends) {
      if (reason == membership::End::Reason::kLeft) continue;
      const bool minority = reason == membership::End::Reason::kMinority;
      job_.say(minority ? fmt::format("node{} has lost the majority of the others, and stops", node)
                        : fmt::format("the others go on without node{}, which comes back", node));
      if (minority) lives_.give_up(node);
      for (const int rank : running_[node]) job_.supervisor().kill_process(rank);
    }
  }

  // The run is over: ranks that have not come back in time are not needed.
  void kill_waiting() {
    if (!over_) over_ = Deadline(kForTheEnd);
    if (!over_->passed()) return;
    for (const auto& [node, ranks] : running_) {
      for (const int rank : ranks) job_.supervisor().kill_process(rank);
    }
  }

  const LaunchOptions& options_;
  const Environment inherited_;
  const std::string program_;
  const Clock::time_point start_ = Clock::now();
  NodeLives lives_;
  std::map<int, std::set<int>> running_;  // ranks, by node
  std::set<int> lost_;                    // nodes of which some ranks still run
  bool finished_ = false;                 // a rank has come to the run's end
  std::optional<Deadline> over_;          // for the others to come to it as well
  std::atomic<bool> finished_elsewhere_ = false;
  std::mutex mutex_;  // guards the next
  std::vector<std::pair<int, membership::End::Reason>> ends_;
  Job job_;
  ViewKeeper views_;
};

}  // namespace

int launch_surviving(const LaunchOptions& options) { return SurvivingJob(options).run(); }

}  // namespace daso
