// SPDX-License-Identifier: Apache-2.0
#include "daso/run/views/replay.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "daso/base/error.h"
#include "daso/comm/operation.h"
#include "daso/comm/world.h"
#include "daso/run/checkpoint.h"
#include "daso/run/run.h"
#include "daso/run/views/copies.h"
#include "daso/run/views/takeover.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "membership.jsonl";

auto order_of(const LeftAt& left) { return std::tuple(left.epoch, left.batch); }

std::vector<ViewRecord> views_of(const fs::path& run) {
  std::vector<ViewRecord> views = read_views(run / kFile);
  require(!views.empty(),
          "--replay {}: there is no {}, which runs with --on-failure continue have; any other run "
          "gives the same bytes when it is done again",
          run.string(), kFile);
  for (const ViewRecord& view : views) {
    require(view.places.size() == view.nodes.size() && view.ranks.size() == view.nodes.size(),
            "--replay {}: view {} of {} does not say where nodes were: an older daso wrote it",
            run.string(), view.number, kFile);
  }
  return views;
}

std::optional<std::size_t> index_of(const ViewRecord& view, int node) {
  const auto found = std::ranges::find(view.nodes, node);
  if (found == view.nodes.end()) return {};
  return static_cast<std::size_t>(found - view.nodes.begin());
}

}  // namespace

Replay::Replay(const fs::path& run, int rank, Address store)
    : views_(views_of(run)),
      decided_(read_decided(run / kFile)),
      stop_(read_stop(run / kFile)),
      store_(std::move(store)) {
  for (const DecidedView& view : decided_) {
    abandoned_.insert(view.abandoned.begin(), view.abandoned.end());
  }
  for (const ViewRecord& view : views_) {
    for (std::size_t i = 0; i < view.nodes.size(); ++i) {
      if (std::ranges::find(view.ranks[i], rank) != view.ranks[i].end()) node_ = view.nodes[i];
    }
  }
}

std::optional<std::size_t> Replay::next_after(std::size_t view, int node) const {
  for (std::size_t i = view + 1; i < views_.size(); ++i) {
    if (index_of(views_[i], node)) return i;
  }
  return {};
}

std::optional<std::size_t> Replay::next() const {
  if (current_) return next_after(*current_, node_);
  if (index_of(views_.front(), node_)) return 0;
  return next_after(0, node_);
}

std::optional<LeftAt> Replay::left_by(int node, std::size_t view) const {
  const std::optional<std::size_t> then = next_after(view, node);
  if (!then) return {};
  return views_[*then].places[*index_of(views_[*then], node)];
}

// Exchanges begin at the same steps on all nodes. So whoever has come as far as the furthest has
// begun all that anybody has, and where all are to have the same, those that the furthest has
// waited for have come as far.
std::optional<ViewEnd> Replay::end_of(std::size_t view) const {
  if (view + 1 == views_.size()) {
    if (!stop_) return {};
    return ViewEnd{.epoch = stop_->epoch, .batch = stop_->batch, .stops = true};
  }
  std::optional<LeftAt> furthest;
  for (const int node : views_[view].nodes) {
    const std::optional<LeftAt> left = left_by(node, view);
    if (left && (!furthest || order_of(*left) > order_of(*furthest))) furthest = left;
  }
  require(furthest.has_value(), "--replay: nobody went on after view {}", views_[view].number);
  const std::optional<LeftAt> own = left_by(node_, view);
  ViewEnd end{.epoch = furthest->epoch, .batch = furthest->batch};
  if (!own) return end;
  end.left = {own->epoch, own->batch};
  if (furthest->equal) return end;
  const auto place = std::max(order_of(*own), std::tuple(furthest->epoch, std::int64_t{0}));
  std::tie(end.epoch, end.batch) = place;
  return end;
}

std::optional<std::int64_t> Replay::first_beyond() const {
  const auto is_later = [this](const DecidedView& one) {
    return one.number > views_[*current_].number;
  };
  const auto next = std::ranges::find_if(decided_, is_later);
  return next == decided_.end() ? std::nullopt : std::optional(next->first_exchange);
}

NextView Replay::next_view(Seconds /*limit*/) {
  current_ = next();
  const ViewRecord& view = views_[*current_];
  NextView next{.number = view.number,
                .first_exchange = view.first_exchange,
                .joined = view.joined,
                .store = store_,
                .replayed = true,
                .end = end_of(*current_)};
  for (const auto& [joiner, exchange] : view.copied) next.copied.push_back(joiner);
  for (std::size_t i = 0; i < view.nodes.size(); ++i) {
    next.nodes.push_back({.id = view.nodes[i],
                          .ranks = static_cast<int>(view.ranks[i].size()),
                          .first_rank = view.ranks[i].front()});
  }
  return next;
}

void Replay::trouble(const std::string& what) {
  throw PeerError(fmt::format("a replay has no faults of its own, and met one: {}", what));
}

Start Replay::start(std::int64_t exchange) {
  joiners_.clear();
  for (std::size_t i = *current_ + 1; i < views_.size(); ++i) {
    if (views_[i].donor != node_) continue;
    for (const auto& [joiner, at] : views_[i].copied) {
      if (at == exchange) joiners_.push_back(replayed_place(views_[i].number, joiner));
    }
  }
  return outcome_of_start(exchange);
}

Start Replay::outcome_of_start(std::int64_t exchange) const {
  const std::optional<std::int64_t> beyond = first_beyond();
  if (!beyond) return Start::kGoes;
  if (exchange >= *beyond) return Start::kEnded;
  if (!abandoned_.contains(exchange)) return Start::kGoes;
  // Given up by all, whether this node had begun it or came too late.
  const std::optional<LeftAt> own = left_by(node_, *current_);
  return own && own->put_off == exchange ? Start::kEnded : Start::kInVain;
}

bool Replay::committed(std::int64_t exchange, Seconds /*limit*/) {
  return !abandoned_.contains(exchange);
}

void Replay::skip(std::int64_t view) {
  for (std::size_t i = 0; i < views_.size() && views_[i].number <= view; ++i) current_ = i;
}

void end_by_script(World& world, const Run& run) {
  const ViewEnd& end = *world.view()->end;
  const RunPlace& place = run.place();
  // Examples may be dealt anew within a view.
  const bool between = place.batch == 0 && !has_come_to(place, end);
  if (between) return;
  if (!has_come_to(place, end)) {
    throw Error(fmt::format(
        "the replay left view {} at batch {} of epoch {}, and the run at batch {} of epoch {}",
        world.view()->number, place.batch, place.epoch + 1, end.batch, end.epoch + 1));
  }
  world.everyone().barrier().wait(world.limit());
}

std::string compare_replay(const fs::path& run, const fs::path& out) {
  const std::string difference = daso::difference(run, out);
  if (!difference.empty()) {
    throw Error(fmt::format("the replay of {} ended otherwise: {}", run.string(), difference));
  }
  return fmt::format("the same bytes as {}\n", run.string());
}

fs::path beginning_of(const fs::path& run) {
  const ViewRecord first = views_of(run).front();
  if (first.epoch == 0 && first.batch == 0) return {};
  const fs::path folder = run / "checkpoints";
  for (const fs::path& checkpoint : complete_checkpoints(folder)) {
    const RunPlace place = read_manifest(checkpoint).place;
    if (place.epoch == first.epoch && place.batch == first.batch) return checkpoint;
  }
  throw ConfigError(fmt::format(
      "--replay {}: its last job went on from batch {} of epoch {}, and {} has no checkpoint of "
      "that place any more; --keep 0 keeps all",
      run.string(), first.batch, first.epoch + 1, folder.string()));
}

std::string difference(const fs::path& run, const fs::path& other) {
  const auto newest = [](const fs::path& folder) {
    const std::optional<fs::path> found = newest_checkpoint(folder / "checkpoints");
    require(found.has_value(), "{} has no checkpoint to compare with", folder.string());
    return read_manifest(*found);
  };
  const Manifest then = newest(run);
  const Manifest now = newest(other);
  if (then.place != now.place) {
    return fmt::format("its newest checkpoint is of step {}, here it is of step {}",
                       then.place.step, now.place.step);
  }
  std::map<std::string, std::string> checksums;
  for (const Manifest::Part& part : then.parts) checksums[part.name] = part.checksum;
  std::vector<std::string> names;
  for (const Manifest::Part& part : now.parts) {
    const auto found = checksums.find(part.name);
    if (found == checksums.end() || found->second != part.checksum) names.push_back(part.name);
    checksums.erase(part.name);
  }
  for (const auto& [name, checksum] : checksums) names.push_back(name);
  if (names.empty()) return "";
  return fmt::format("of its checkpoint of step {} these parts differ: {}", then.place.step,
                     fmt::join(names, ", "));
}

}  // namespace daso
