// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "daso/membership/view.h"

// What must hold in every run, whatever goes wrong. It knows more than any member: all of them.
namespace daso::membership {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// All that was ever committed, in order. An anchor is a beginning of it, so it is known by its
// length. Functions throw Violation.
class History {
 public:
  struct Entry {
    ViewNumber view = 0;
    ExchangeNumber exchange = 0;
    bool operator==(const Entry&) const = default;
  };

  explicit History(const View& first);

  // Somebody says that this was decided: there is one value for each number, it follows from the
  // view before, and what it says of that view's exchanges agrees with what anybody has merged.
  void decided(const View& view);
  // A node has voted; `voter` counts nodes.
  void prepared(const Entry& entry, unsigned voter);
  // A node whose anchor has this length merges this.
  void merged(std::size_t anchor, const Entry& entry);

  const std::vector<View>& views() const { return views_; }  // view 1 first
  const View& latest() const { return views_.back(); }
  // The length of the anchor with which a view begins.
  std::size_t begin_of(ViewNumber view) const { return begins_.at(view - 1); }
  std::size_t size() const { return entries_.size(); }

 private:
  void append(const Entry& entry);
  void settle(const View& next);
  void must_hold(const Entry& entry, const Member& member) const;

  std::vector<Entry> entries_;
  std::vector<View> views_;
  std::vector<std::size_t> begins_;
  struct Votes {
    ExchangeNumber first = 0;
    std::vector<unsigned> voters;  // for each exchange: a set of nodes
  };
  std::vector<Votes> votes_;
};

}  // namespace daso::membership
