// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <set>

#include "daso/comm/own_address.h"
#include "daso/launch/job.h"
#include "daso/launch/launch.h"
#include "daso/launch/node_lives.h"
#include "daso/launch/view_keeper.h"
#include "daso/launch/witness.h"

namespace daso {
namespace {

constexpr Seconds kLook{0.1};  // from look to look at what the views' keeper has found
constexpr Seconds kForTheEnd{5};
// From a signal to leaving: are the others told as well? Signals within a second are one, and who
// tells all launchers needs a moment for it.
constexpr Seconds kForOthersToBeTold{1};

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
        job_(options,
             {.takes_end = [this](const RankEnd& end) { return takes_end(job_.as_meant(end)); },
              .on_turn = [this] { return on_turn(); },
              .takes_signal = [this](int signal) { return takes_signal(signal); }}),
        views_({.ranks_per_node = options.ranks_per_node,
                .own = own_nodes(),
                .store = job_.address().store,
                .rules = rules(),
                .others = others(),
                .make_tie_break = tie_break(),
                .on_view =
                    [this](const membership::View& view) {
                      view_ = static_cast<std::int64_t>(view.number);
                    },
                .on_finished = [this] { finished_elsewhere_ = true; }}) {}

  int run() {
    for (const int node : own_nodes()) start(node);
    views_.begin();
    job_.run();
    if (finished_) views_.tell_others_of_end();
    const int code = exit_code();
    if (code != kExitOk && code != options_.stopped_exit) views_.vanish();
    return code;
  }

 private:
  int exit_code() {
    if (saving_) return job_.finish({}), kExitPeer;
    if (too_few_) {
      const int code = job_.finish(job_.supervisor().ends());
      return code == options_.stopped_exit ? kExitPeer : code;
    }
    if (unaware_) {
      job_.say(
          "the program has not asked its launcher who else there is, so it cannot go on when a "
          "node is lost: leave out --on-failure continue, which is for daso train, for programs "
          "that train by daso::train_main(), and for daso.Run in Python");
      job_.finish({});
      return kExitConfig;
    }
    if (left_ && !finished_ && !finished_elsewhere_) {
      job_.say(fmt::format("node{} has left the run; --join takes it back while the others go on",
                           own_nodes().front()));
    }
    if (finished_elsewhere_ && job_.supervisor().ends().empty()) return job_.finish({});
    if (job_.supervisor().ends().empty()) {
      if (left_) {
        job_.finish({});
        return options_.stopped_exit;
      }
      if (!views_.missing().empty()) {
        job_.finish({});
        return kExitPeer;
      }
      job_.say(over_
                   ? "no node is left that has the run, --resume goes on from its last checkpoint; "
                     "the job ends with exit code 3"
                   : "all nodes are lost, and none is started again; the job ends with exit code "
                     "3");
      job_.finish({});
      return kExitPeer;
    }
    return job_.finish(job_.supervisor().ends());
  }

  std::vector<int> own_nodes() const {
    std::set<int> nodes;
    for (const RankSpot& spot : job_.spots()) nodes.insert(spot.node);
    return {nodes.begin(), nodes.end()};
  }

  membership::Options rules() const {
    membership::Options rules;
    rules.silence = options_.survival->silence;
    rules.sole = !has_others(options_);  // then there is nobody else who could decide
    rules.seats =
        options_.ranks_per_node.size() - static_cast<std::size_t>(options_.survival->standby);
    rules.tie_break = tie_break() != nullptr;
    return rules;
  }

  // Who says which half goes on where the launchers have fallen into two.
  std::function<std::unique_ptr<TieBreak>(const membership::Member&)> tie_break() const {
    const Survival& survival = *options_.survival;
    if (!has_others(options_)) return {};
    if (!survival.witness.empty()) {
      return [witness = resolved(parse_address(survival.witness)),
              key = job_.address().token](const membership::Member&) {
        return std::make_unique<WitnessTieBreak>(
            WitnessTieBreak::Options{.witness = witness, .key = key});
      };
    }
    if (survival.views.empty()) return {};
    return [folder = survival.views](const membership::Member& self) {
      return std::make_unique<FileTieBreak>(folder, self);
    };
  }

  static Address resolved(const Address& address) {
    return {addresses_of(address.host).front(), address.port};
  }

  std::optional<OtherLaunchers> others() {
    if (!has_others(options_)) return std::nullopt;
    OtherLaunchers others{.key = job_.address().token, .joins = options_.survival->joins};
    const std::vector<Address> entries = launcher_addresses(options_);
    for (std::size_t node = 0; node < entries.size(); ++node) {
      if (static_cast<int>(node) == *options_.node_index) {
        Address own = entries[node];
        if (!options_.interface.empty()) own.host = address_on_device(own.host, options_.interface);
        others.listening = listen_on(own).release();
      } else {
        others.nodes[static_cast<membership::NodeId>(node)] = resolved(entries[node]);
      }
    }
    return others;
  }

  bool stands_by(int node) const {
    const auto nodes = static_cast<int>(options_.ranks_per_node.size());
    return node >= nodes - options_.survival->standby;
  }

  std::vector<RankSpot> spots_of(int node) const {
    std::vector<RankSpot> spots = job_.spots();
    std::erase_if(spots, [&](const RankSpot& spot) { return spot.node != node; });
    return spots;
  }

  void start(int node) {
    lives_.started(node);
    const bool again = !started_.insert(node).second;
    const bool joins = options_.survival->joins || again || stands_by(node);
    for (const RankSpot& spot : spots_of(node)) {
      const FileDescriptor line = views_.open_line(node, spot.local_rank);
      Environment environment = rank_environment(inherited_, options_, spot, job_.address());
      environment[kLineVariable] = std::to_string(line.get());
      environment.erase(kJoinsVariable);
      if (joins) environment[kJoinsVariable] = "1";
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
    if (saving_) return true;  // it has said itself what came of it
    const std::optional<int> passed_on = job_.supervisor().rule().passed_on;
    if (unaware_) return true;
    if (end.well() && !views_.has_been_asked()) {
      end_unaware();
      return true;
    }
    if (end.well()) finish(node);
    // An error of the run's own would come again, and on all nodes. So the others are asked to end.
    const bool lost = end.signal != 0 || end.code == kExitPeer;
    const bool left = end.code == options_.stopped_exit;
    if (!lost && !left && to_ask_ && !views_.has_been_asked()) {
      end_unaware();
      return true;
    }
    failed_ = failed_ || (!lost && !left && !end.well());
    const bool as_told = end.asked || (passed_on && end.signal == *passed_on);
    if (!lost || as_told || failed_) return false;
    if (!over_ && !views_.has_entered(node)) name_missing();
    if (!views_.has_been_asked() && !to_ask_) to_ask_ = Deadline(options_.limit);
    if (lost_.insert(node).second && !finished_ && !over_) {
      const std::optional<std::string> reason = job_.reason_of(end.rank);
      job_.say(fmt::format("{} {}{}; node{} is lost, the others go on", job_.name_of(end.rank),
                           text(end), reason ? fmt::format(" ({})", *reason) : "", node));
    }
    if (!ranks.empty()) {
      views_.lost(node);
      kill(node);
      return true;
    }
    views_.lost(node);
    lost_.erase(node);
    if (!finished_ && !over_ && !passed_on &&
        !lives_.died(node, views_.has_entered(node), since(start_))) {
      job_.say(fmt::format("node{} is not started again", node));
    }
    return true;
  }

  // Where other launchers go on, a signal is for this node alone, unless they are told as well:
  // then there would be too few of them, and all stop together.
  bool takes_signal(int signal) {
    const int node = own_nodes().front();
    if (!has_others(options_) || job_.all_are_told() || !views_.has_entered(node)) return false;
    views_.announce_leaving(node);
    told_ = Clock::now();
    job_.say(leaving_notice(signal, node));
    return true;
  }

  void leave_or_stop() {
    if (!told_) return;
    if (views_.staying() < options_.survival->min_nodes) {
      job_.supervisor().pass_on();
    } else if (since(*told_) >= kForOthersToBeTold) {
      views_.leave(own_nodes().front());
      left_ = true;
    } else {
      return;
    }
    told_.reset();
  }

  // Where launchers have not found each other there is nothing to come back to.
  void name_missing() {
    const std::string missing = views_.missing();
    if (missing.empty()) return;
    job_.say(fmt::format("the launcher of {} has not come", missing));
    over_ = true;
    for (const int node : own_nodes()) kill(node);
  }

  // Its others would wait for a rank that they cannot do without, or have ended by themselves.
  void end_unaware() {
    unaware_ = over_ = true;
    for (const int node : own_nodes()) kill(node);
  }

  // Who comes too late has nobody to learn from.
  void finish(int node) {
    finished_ = true;
    if (running_[node].empty()) views_.finished(node);
    for (const auto& [other, ranks] : running_) {
      if (!ranks.empty() && !views_.has_entered(other)) kill(other);
    }
  }

  SupervisorOptions::Turn on_turn() {
    job_.begin_view(view_);
    leave_or_stop();
    if (to_ask_ && views_.has_been_asked()) to_ask_.reset();
    if (to_ask_ && to_ask_->passed() && !over_) end_unaware();
    const bool told_to_end = job_.supervisor().rule().passed_on.has_value();
    for (const std::string& notice : views_.take_notices()) job_.say(notice);
    save_if_cut_off();
    stop_if_too_few();
    for (const auto& [node, why] : views_.take_unfit()) {
      job_.say(fmt::format("node{} is ended: {}", node, why));
      kill(node);
    }
    if (!finished_ && !over_ && views_.nobody_left()) {
      over_ = true;
      for (const int node : own_nodes()) kill(node);
    }
    if (finished_elsewhere_ && !finished_) kill_late();
    if (finished_ || failed_ || told_to_end || over_ || finished_elsewhere_) {
      lives_.forget_all();
      return {.again = kLook};
    }
    while (const std::optional<int> node = lives_.due(since(start_))) {
      start(*node);
      views_.come_back(*node);
    }
    const std::optional<Seconds> pause = lives_.pause(since(start_));
    return {.again = std::min(kLook, pause.value_or(kLook)), .more_to_come = pause.has_value()};
  }

  // The others may go on, without us: what this node has is saved beside the run.
  void save_if_cut_off() {
    if (saving_ && saving_->passed()) {
      for (const int node : own_nodes()) kill(node);
    }
    if (saving_ || finished_ || over_ || !views_.cut_off()) return;
    saving_ = Deadline(options_.limit);
    over_ = true;
    job_.say(
        fmt::format("node{} has lost the majority of the others, and ends", own_nodes().front()));
  }

  // All launchers see the same view, so all do this.
  void stop_if_too_few() {
    const int least = options_.survival->min_nodes;
    const bool told = job_.supervisor().rule().passed_on.has_value();
    if (told || finished_ || over_ || views_.members() >= least) return;
    too_few_ = true;
    job_.say(fmt::format("{} of the {} nodes that --min-nodes asks for are left: all save and stop",
                         views_.members(), least));
    job_.supervisor().stop(SIGTERM);
  }

  // The run is over on other machines: a node that has not come back in time is not needed.
  void kill_late() {
    if (!late_) late_ = Deadline(kForTheEnd);
    if (!late_->passed()) return;
    for (const int node : own_nodes()) kill(node);
  }

  void kill(int node) {
    for (const int rank : running_.at(node)) job_.supervisor().kill_process(rank);
  }

  const LaunchOptions& options_;
  const Environment inherited_;
  const std::string program_;
  const Clock::time_point start_ = Clock::now();
  NodeLives lives_;
  std::map<int, std::set<int>> running_;   // ranks, by node
  std::set<int> started_;                  // nodes
  std::set<int> lost_;                     // nodes of which some ranks still run
  std::optional<Clock::time_point> told_;  // to leave, and it is not known yet whether all are
  bool left_ = false;                      // its node leaves, or has
  bool finished_ = false;                  // a rank has come to the run's end
  bool failed_ = false;                    // a rank has ended by an error of its own
  bool over_ = false;                      // there is nobody who could
  bool too_few_ = false;                   // nodes are left, and those stop
  std::optional<Deadline> saving_;         // what the node has, since the others are out of reach
  bool unaware_ = false;                   // the program knows nothing of views
  std::optional<Deadline> to_ask_;  // for a view, after a loss: so long it may not know of any
  std::atomic<std::int64_t> view_ = 0;  // the last one that it has been in
  std::atomic<bool> finished_elsewhere_ = false;
  std::optional<Deadline> late_;  // then what has not finished is ended
  Job job_;
  ViewKeeper views_;
};

}  // namespace

int launch_surviving(const LaunchOptions& options) { return SurvivingJob(options).run(); }

}  // namespace daso
