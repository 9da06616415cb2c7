// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/network.h"
#include "daso/comm/world_options.h"

// A run that outlives its nodes (docs/membership.md), as its ranks see it: their launchers decide
// who belongs to the run and which exchanges count. A world is made for one view, and ends with it.
namespace daso {

class NodeLink;

// What becomes of an exchange that a node wishes to begin.
enum class Start : std::int64_t {
  kGoes,    // it begins in the present view
  kEnded,   // the view has ended before
  kInVain,  // it begins, and is known to be given up: there is nobody to exchange anything with
};

// What a rank asks its launcher about the view that it acts in.
class Decisions {
 public:
  virtual ~Decisions() = default;

  virtual Start start(std::int64_t exchange) = 0;
  // The node holds the whole answer. From any thread.
  virtual void prepared(std::int64_t exchange) = 0;
  // Waits until the exchange is committed, or the view has ended without it (false). Throws
  // PeerError if the launcher says neither within the limit.
  virtual bool committed(std::int64_t exchange, Seconds limit) = 0;
  // Nodes that are to join wait for a copy of the run as it is at the exchange that was started
  // last; and where they do. They go on waiting until they are taken, and wait again when the
  // copies that were made for them are of no use any more.
  virtual bool joiners_wait() { return false; }
  virtual std::vector<std::string> take_joiners() { return {}; }
  virtual void copies_dropped() {}
  // Whether the node has what a joiner could be given ahead (run/views/copies.h).
  virtual void gives_copies(bool /*gives*/) {}
  // Something between the nodes has failed here, and the launchers may not have noticed: unless a
  // loss explains it soon they begin the view anew. From any thread.
  virtual void trouble(const std::string& /*what*/) {}
  // The view has ended, as far as the launcher has said so.
  virtual bool ended() = 0;
  // Calls `action` then, on any thread; at once if it has ended already.
  virtual void when_ended(std::function<void()> action) = 0;
};

// A view as it is told to the ranks of a member.
struct NextView {
  struct Node {
    int id = 0;
    int ranks = 0;
    int first_rank = 0;  // the number that its first rank was started with
  };
  std::int64_t number = 0;
  std::int64_t first_exchange = 0;
  std::vector<Node> nodes;  // in the order of their ids
  std::vector<int> joined;  // ids of those that the view before had not
  std::vector<int> left;    // ids of those that are not in it since they have left on purpose
  std::vector<DecidedView> decided;  // up to this one, as far as the launcher knows them
  Address store;                     // where the ranks of this view meet
  bool last = false;      // of a node that has lost the others: to save what it has, and end
  bool replayed = false;  // by script, as are the next two
  std::optional<ViewEnd> end = {};
  std::vector<int> copied = {};  // WorldView::copied
};
// Without what belongs to replays.
std::string text_of(const NextView& view);
NextView view_in(const std::string& text);

// What the keys of a view begin with, in the store where its ranks meet. In the order of bytes
// those of earlier views come first.
std::string part_of_view(std::int64_t number);

// What a rank joins the view's world with: the options that it was started with, and its seat in
// the view. Throws ConfigError if its node is not in it.
WorldOptions options_in(const NextView& view, WorldOptions options, int rank_id,
                        std::shared_ptr<Decisions> decisions);

// Where a process hears of one view after the other, and of what is decided in each.
class ViewSource : public Decisions {
 public:
  // Throws PeerError if there is none within the limit.
  virtual NextView next_view(Seconds limit) = 0;
  // There is none any more for this process, and never will be.
  virtual bool over() const { return false; }
  // The others are at work already: this process joins them.
  virtual bool joins() const { return false; }
  // Before the first view: one of the others is to send a copy of the run to this place, ahead of
  // the view, which waits until the node has caught up. From any thread.
  virtual void ask_copy(const std::string& /*place*/) {}
  virtual void caught_up() {}
};

// What Decisions say, for a node: its ranks ask together, at the same step, and get the answer that
// the first of them has got, so that they do the same.
class Views {
 public:
  // `node` is for this alone; both are borrowed but the decisions.
  Views(std::shared_ptr<Decisions> decisions, NodeLink& node, Seconds limit);

  // Launchers count exchanges from their job's beginning, a run from its own: this many were
  // before. To be called before anything else.
  void count_from(std::int64_t before) { before_ = before; }

  Start start(std::int64_t exchange);
  // Joiners wait, since the last start, for a copy that all ranks of the node make: where they do,
  // for this node's first rank; the others get an empty list.
  std::optional<std::vector<std::string>> take_joiners();
  void copies_dropped() { decisions_->copies_dropped(); }
  void gives_copies(bool gives);
  bool committed(std::int64_t exchange);
  bool ended();
  // Whether all ranks of the node say so.
  bool all(bool own);
  // By any rank, from any thread; the first one's counts.
  void prepared(std::int64_t exchange);
  // By any rank, from any thread.
  void trouble(const std::string& what) { decisions_->trouble(what); }

 private:
  std::int64_t told_by_first(const std::function<std::int64_t()>& ask);

  const std::shared_ptr<Decisions> decisions_;
  NodeLink& node_;
  const Seconds limit_;
  std::int64_t before_ = 0;
  bool joiners_wait_ = false;
  std::optional<bool> gives_copies_;  // as it was said last
};

}  // namespace daso
