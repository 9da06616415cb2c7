// SPDX-License-Identifier: Apache-2.0
// What a keeper of views hears from its ranks, and tells them.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "daso/launch/incarnation.h"
#include "daso/launch/view_keeper.h"

namespace daso {

using membership::Member;
using membership::Membership;
using membership::View;

namespace {

// A watcher that has not watched for longer has slept itself.
constexpr Seconds kOwnSleep{1};
// A rank whose node waits for a seat hears so again and again, or it would give up.
constexpr Seconds kFromWaitToWait{0.5};

// Takes the first word off a line.
std::string take_word(std::string& line) {
  const std::size_t space = line.find(' ');
  std::string word = line.substr(0, space);
  line.erase(0, space == std::string::npos ? space : space + 1);
  return word;
}

}  // namespace

void ViewKeeper::read_lines() {
  for (auto& [number, node] : nodes_) {
    for (auto& [local, line] : node.lines) {
      for (std::string& text : line.read()) {
        try {
          hear(number, node, line, std::move(text));
        } catch (const std::exception& error) {  // a rank says what none of ours does
          declare_unfit(number, node, fmt::format("its rank {} says {}", local, error.what()));
        }
      }
    }
    answer(number, node);
  }
}

void ViewKeeper::hear(int number, Node& node, RankLine& line, std::string text) {
  line.heard = since(start_);
  std::string word = take_word(text);
  RankLine::Question question;
  if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos) {
    question.number = std::exchange(word, take_word(text));
    question.about = std::stoll(text);
  }
  if (word == "next") {
    has_been_asked_ = true;
    line.wants_view = question;
    const auto asks = [](const auto& one) { return one.second.wants_view.has_value(); };
    if (node.waits &&
        static_cast<int>(node.lines.size()) ==
            options_.ranks_per_node[static_cast<std::size_t>(number)] &&
        std::ranges::all_of(node.lines, asks)) {
      join(number);
    }
  } else if (word == "start") {
    line.answer(question, acts_in_view(node, line) ? start(node, question.about) : "ended");
  } else if (word == "prepared") {
    if (acts_in_view(node, line)) node.membership->prepared(std::stoll(text));
  } else if (word == "outcome") {
    line.wants_outcome = question;
  } else if (word == "gives") {
    if (node.membership) node.membership->give_copies(text == "1");
  } else if (word == "copy") {
    node.copy_to = text;
    if (node.membership) node.membership->ask_copy(text);
  } else if (word == "caught-up") {
    node.copy_to.clear();
    if (node.membership) node.membership->ready();
  } else if (word == "trouble") {
    node.trouble = {.when = since(start_),
                    .view = static_cast<membership::ViewNumber>(std::stoll(text))};
  }
}

std::string ViewKeeper::start(Node& node, std::int64_t exchange) {
  if (node.membership->leaving() || !node.membership->started(exchange)) return "ended";
  std::string answer = "go";
  for (const std::string& place : node.membership->copies_wanted()) answer += " " + place;
  return answer;
}

// The next view may have been decided by now, with the same number to come next: what a rank starts
// in the last one is nothing of it.
bool ViewKeeper::acts_in_view(const Node& node, const RankLine& line) {
  return node.membership && line.view == static_cast<std::int64_t>(node.membership->view().number);
}

// What ranks wait for, as far as it is known by now.
void ViewKeeper::answer(int number, Node& node) {
  if (!node.membership) return;
  for (auto& [local, line] : node.lines) {
    if (!line.wants_view) continue;
    if (node.left) {
      line.answer(*std::exchange(line.wants_view, {}), "left");
    } else if (node.cut_off) {
      line.answer(*std::exchange(line.wants_view, {}), "view " + text_of(last_view(node)));
    }
  }
  const bool acting = node.membership->phase() == Membership::Phase::kActing;
  const View& view = node.membership->view();
  for (auto& [local, line] : node.lines) {
    const std::optional<Address> store =
        acting && line.wants_view && static_cast<std::int64_t>(view.number) > line.wants_view->about
            ? store_of(view)
            : std::nullopt;
    if (store) {  // else its launcher has not greeted us yet
      line.view = static_cast<std::int64_t>(view.number);
      line.answer(*std::exchange(line.wants_view, {}), "view " + text_of(told(view, *store)));
      const std::lock_guard lock(mutex_);
      entered_.insert(number);
    }
    if (!line.wants_outcome) continue;
    const auto known = node.outcomes.find(line.wants_outcome->about);
    if (known == node.outcomes.end() && !node.cut_off) continue;
    const bool committed = known != node.outcomes.end() && known->second;
    line.answer(*std::exchange(line.wants_outcome, {}), committed ? "commit" : "abandon");
  }
}

void ViewKeeper::tell_all(Node& node, const std::string& text) {
  for (auto& [local, line] : node.lines) line.say(text);
}

// A node that has caught up and finds no seat may wait for as long as the run takes.
void ViewKeeper::keep_waiting(Node& node, Seconds now) {
  if (!node.membership->waits_for_seat() || now < node.next_wait) return;
  node.next_wait = now + kFromWaitToWait;
  for (auto& [local, line] : node.lines) {
    if (line.wants_view) line.answer(*std::exchange(line.wants_view, {}), "wait");
  }
}

// A rank that was stopped, or hangs as a whole. One that has not begun yet is still being loaded.
void ViewKeeper::watch_ranks(Seconds now) {
  const bool slept = now - last_watch_ > kOwnSleep;
  last_watch_ = now;
  for (auto& [number, node] : nodes_) {
    for (auto& [local, line] : node.lines) {
      if (!line.heard || !line.open()) continue;
      if (slept) line.heard = now;
      const Seconds silence = now - *line.heard;
      if (silence <= options_.rules.silence) continue;
      declare_unfit(
          number, node,
          fmt::format("its rank {} has said nothing for {:.1f} s", local, silence.count()));
    }
  }
}

// That of its lowest member's launcher.
std::optional<Address> ViewKeeper::store_of(const View& view) const {
  const int lowest = static_cast<int>(view.members.front().node);
  if (nodes_.contains(lowest)) return options_.store;
  const auto known = known_.find(lowest);
  const bool there =
      known != known_.end() && same_launcher(known->second.member, view.members.front());
  return there ? std::optional(known->second.store) : std::nullopt;
}

NextView ViewKeeper::told(const View& view, const Address& store) const {
  NextView told{.number = static_cast<std::int64_t>(view.number),
                .first_exchange = view.first_exchange,
                .decided = decided_,
                .store = store};
  for (const Member& member : view.members) {
    const auto node = static_cast<std::ptrdiff_t>(member.node);
    const auto ranks = options_.ranks_per_node.begin();
    told.nodes.push_back({.id = static_cast<int>(member.node),
                          .ranks = ranks[node],
                          .first_rank = std::accumulate(ranks, ranks + node, 0)});
  }
  for (const Member& member : view.joined) told.joined.push_back(static_cast<int>(member.node));
  for (const Member& member : leavers_) {
    if (member_of(view.members, member.node) != nullptr) continue;
    told.left.push_back(static_cast<int>(member.node));
  }
  return told;
}

// What a node is told that has lost the others: a world of its own, in which it saves what it has.
NextView ViewKeeper::last_view(const Node& node) const {
  View alone{.number = node.membership->view().number + 1,
             .members = {node.membership->self()},
             .first_exchange = node.membership->view().first_exchange};
  NextView view = told(alone, options_.store);
  view.last = true;
  return view;
}

}  // namespace daso
