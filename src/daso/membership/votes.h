// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/membership/report.h"

// Exchanges as transactions, within one view: a node says that it has prepared an exchange when all
// its ranks hold the whole answer, and an exchange that all members have prepared is committed.
namespace daso::membership {

// The votes of one node and what it knows of the others'. Votes are cumulative: the last word of a
// member contains all before, so words may be lost, repeated and overtaken.
class Votes {
 public:
  Votes() = default;
  Votes(const View& view, const Member& self);

  // The next number of the view. False: votes are frozen, or it is another number. Throws
  // ConfigError for more than kMostInFlight at a time.
  bool started(ExchangeNumber exchange);
  // A number in flight. False: votes are frozen, or it is none in flight.
  bool prepared(ExchangeNumber exchange);
  void heard(NodeId node, const Progress& progress);

  // What all members hold by now, in ascending order; each number once. Numbers are committed in
  // order, so that all members' anchors are made of the same exchanges in the same order.
  std::vector<ExchangeNumber> take_commits();

  // From now on nothing changes.
  void freeze() { frozen_ = true; }
  bool frozen() const { return frozen_; }

  const Progress& progress() const { return own_; }

 private:
  struct Peer {
    NodeId node = 0;
    Progress progress;
  };

  Progress own_;
  std::vector<Peer> peers_;
  bool frozen_ = false;
};

}  // namespace daso::membership
