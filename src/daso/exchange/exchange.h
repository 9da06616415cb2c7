// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daso/base/worker.h"
#include "daso/comm/spread.h"
#include "daso/comm/world.h"
#include "daso/exchange/leaders.h"
#include "daso/policy/exchange_options.h"
#include "daso/tensor/flat_model.h"
#include "daso/tensor/state.h"

namespace daso {

// An exchange of parameters between nodes in the background (algorithm.md 3, 4 and 6).
//
//   start   the training thread takes a snapshot
//   work    the exchange thread encodes its difference to the anchor, sends it, averages the part
//           it owns, gathers the answer; training goes on meanwhile
//   merge   the training thread waits for the answer if it is not there yet, and applies it
//
// Anchor, residuals and wire format live here and nowhere else. All buffers are made at the
// beginning and kept. One exchange is in flight at most.
class Exchange {
 public:
  // All is borrowed. All ranks make theirs together.
  Exchange(World& world, const FlatModel& model, const Leaders& leaders,
           const ExchangeOptions& options);

  // The parameters as they are now, equal on all nodes, become the anchor.
  void set_anchor();
  void start(std::int64_t exchange);
  // Throws PeerError; Error if what travelled was not finite, or copies that should be equal are
  // not.
  void merge(std::int64_t staleness);
  // Throws the same if the exchange in flight has failed by now; does not wait for it.
  void check() { worker_.check(); }

  // What rounding has left out of the means that this rank owns, as NodesMean takes it. Nothing may
  // be in flight.
  std::vector<at::Tensor> residuals() const;

  // Waits for the answer of an exchange in flight, which then is part of the state.
  State state(bool in_flight);
  void load_state(const State& state, bool in_flight);

  double wait_seconds() const { return wait_seconds_; }
  double busy_seconds() const { return busy_seconds_; }  // of its thread, up to the last merge
  std::int64_t bytes_between_nodes() const { return bytes_between_nodes_; }  // sent by this rank
  // Of the last merge of a slice that this rank spoke for (StrategyStatus::distance).
  std::optional<double> distance() const { return distance_; }

 private:
  // Of a slice: its rows of the model; its bytes in own_ and back_; its elements of a flat tensor;
  // its anchor, where this rank keeps it, else nothing.
  Segment rows_of(int slice) const;
  std::span<std::byte> encoded(const at::Tensor& all, int slice) const;
  std::span<float> elements(const at::Tensor& flat, int slice) const;
  std::span<float> anchor_of(int slice) const;
  bool keeps(int slice) const;
  std::int64_t padded_rows(std::int64_t rows) const;  // as many as divide by the nodes
  std::int64_t own_rows() const;                      // of the slice that this rank speaks for
  // Of a tensor that has the padded rows of this rank's slice, or of one that has what a peer owns
  // of them: the rows of a piece.
  at::Tensor piece_of(const at::Tensor& slice, const Segment& piece) const;
  at::Tensor owned_of(const at::Tensor& segments, const Segment& piece) const;

  // Of what a sender encodes in the exchange in flight, from a row of the model on.
  Draws draws_of(std::int64_t sender, std::int64_t first_row) const;

  void work(const Turn& turn);
  void compare_in_node();
  std::int64_t encode_slice(int slice);  // returns the first element that cannot travel
  void compare_between_nodes(const Turn& turn, Pending arriving);
  void talk(const Turn& turn);
  void average(const Turn& turn, const Segment& piece);
  double distance_in(int slice) const;

  World& world_;
  const FlatModel& model_;
  const Leaders& leaders_;
  const ExchangeOptions options_;
  NodeLink& node_;
  const std::int64_t rows_;            // of the model, kFlatBlock elements each
  const std::int64_t width_;           // rows of each slice in own_ and back_
  const std::vector<Segment> pieces_;  // of this rank's slice
  at::Tensor snapshot_;                // of the parameters at the start
  at::Tensor anchor_;    // sharded: of this rank's slice; rotating: of the whole model
  at::Tensor own_;       // what this node sends, encoded: [slices * width_, bytes of a block]
  at::Tensor back_;      // what comes back, likewise
  at::Tensor received_;  // piece by piece this rank's segments from all nodes, encoded
  at::Tensor answer_;    // the means of them, encoded
  at::Tensor residual_;  // what that left out, in rows of kFlatBlock
  at::Tensor digests_;   // of the parameters, by local rank
  at::Tensor header_;    // what goes ahead of a slice
  at::Tensor headers_;   // from all peers
  // By turn, then by piece; none where this rank only listens.
  std::vector<std::vector<Spread>> spreads_;
  std::int64_t exchange_ = 0;              // the one in flight
  std::int64_t sent_ = 0;                  // by it, from this rank to other nodes
  Clock::time_point started_;              // when it began
  std::optional<double> talked_distance_;  // of its slice
  std::optional<double> distance_;
  double wait_seconds_ = 0;
  double busy_seconds_ = 0;
  std::int64_t bytes_between_nodes_ = 0;
  Worker worker_;  // last: it uses all of the above
};

}  // namespace daso
