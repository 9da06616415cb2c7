// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daso/run/views/copy_sender.h"

namespace daso {

// In a replay, what stands for the place where a node waited that was given a copy ahead of a view.
std::string replayed_place(std::int64_t view, int node);

// What a node's first rank has copied of the run for nodes that are to join, from the exchange on
// at whose start it was copied. A joiner gets its copy ahead, while all train on, and keeps it up
// to date; when it enters a view it is given what a copy has not, and nobody waits for the rest. It
// is of no use any more once nodes agree on all they have. In a replay nothing is sent: a copy is
// kept until the view begins.
class JoinerCopies {
 public:
  struct Options {
    std::string key;  // of the job
    Seconds limit{60};
    ExchangeOptions exchange;
    bool sends = true;  // false: in a replay
  };
  void begin(const std::vector<std::string>& places, std::int64_t exchange, const State& state,
             const Options& options);
  bool empty() const { return made_.empty(); }
  // Once for each exchange that counts; more often is the same.
  void add(std::int64_t exchange, const at::Tensor& answer);
  void drop() { made_.clear(); }
  void drop(const std::string& place);

  struct Copy {
    std::string place;
    std::int64_t exchange = 0;           // that it was made at
    std::int64_t next = 0;               // the first whose answer it has not
    State state;                         // of one that is not sent; else its names alone
    std::unique_ptr<CopySender> sender;  // null in a replay
    bool holds() const { return !sender || sender->holds(); }
  };
  const std::vector<Copy>& all() const { return made_; }
  const Copy* find(const std::string& place) const;

 private:
  std::vector<Copy> made_;
};

}  // namespace daso
