// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "daso/base/seconds.h"

// A run that outlives its nodes (docs/membership.md), as its ranks see it: their launchers decide
// who belongs to the run and which exchanges count. A world is made for one view, and ends with it.
namespace daso {

class NodeLink;

// What a rank asks its launcher about the view that it acts in.
class Decisions {
 public:
  virtual ~Decisions() = default;

  // Whether this exchange begins in the present view. False: the view has ended before.
  virtual bool start(std::int64_t exchange) = 0;
  // The node holds the whole answer. From any thread.
  virtual void prepared(std::int64_t exchange) = 0;
  // Waits until the exchange is committed, or the view has ended without it (false). Throws
  // PeerError if the launcher says neither within the limit.
  virtual bool committed(std::int64_t exchange, Seconds limit) = 0;
  // The view has ended, as far as the launcher has said so.
  virtual bool ended() = 0;
  // Calls `action` then, on any thread; at once if it has ended already.
  virtual void when_ended(std::function<void()> action) = 0;
};

// The same for a node: its ranks ask together, at the same step, and get the answer that the first
// of them has got, so that they do the same.
class Views {
 public:
  // `node` is for this alone; both are borrowed but the decisions.
  Views(std::shared_ptr<Decisions> decisions, NodeLink& node, Seconds limit);

  // Launchers count exchanges from their job's beginning, a run from its own: this many were
  // before. To be called before anything else.
  void count_from(std::int64_t before) { before_ = before; }

  bool start(std::int64_t exchange);
  bool committed(std::int64_t exchange);
  bool ended();
  // Whether all ranks of the node say so.
  bool all(bool own);
  // By any rank, from any thread; the first one's counts.
  void prepared(std::int64_t exchange);

 private:
  bool told_by_first(const std::function<bool()>& ask);

  const std::shared_ptr<Decisions> decisions_;
  NodeLink& node_;
  const Seconds limit_;
  std::int64_t before_ = 0;
};

}  // namespace daso
