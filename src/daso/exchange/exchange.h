// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daso/base/worker.h"
#include "daso/comm/views.h"
#include "daso/comm/world.h"
#include "daso/exchange/hierarchical_mean.h"
#include "daso/exchange/leaders.h"
#include "daso/exchange/outer_rule.h"
#include "daso/policy/exchange_options.h"
#include "daso/tensor/flat_model.h"
#include "daso/tensor/lane.h"
#include "daso/tensor/state.h"

// The folder `exchange` carries out what policy has decided: it averages gradients, parameters and
// optimizer state over ranks and nodes. What strategies are composed of:
//
//   GradientSync  gradients, during backward, over the node or the world
//   Exchange      parameters, between nodes in the background, merged late by an OuterRule
//   Agreement     parameters and optimizer state, between nodes, at once
//
// Below them lie Leaders, who says which rank of a node leads which slice of the model in which
// exchange, and HierarchicalMean, the one pipeline between nodes. Parts wait with the world's limit
// and count their own costs; those with something to keep have state() and load_state().
namespace daso {

// An exchange of parameters between nodes in the background (algorithm.md 3, 4 and 6).
//
//   start   the training thread takes a snapshot
//   run     the exchange thread encodes its difference to the anchor and sends it; the owner of a
//           segment averages what it has received; the answer comes back; training goes on
//   merge   the training thread waits for the answer if it is not there yet, and applies it
//
// On a device encoding is quicker than a snapshot, and start encodes. The encoded bytes then go to
// the host and the answer comes up again piece by piece, in a lane beside training: the device
// trains on, and waits for nothing but the last piece before a merge. It holds the anchor and both
// encoded parts; residuals stay on the host.
//
// Anchor, residuals and wire format live here and nowhere else. Nothing but the merge changes
// parameters, anchor or residuals: an exchange that is never merged leaves them as they were. All
// buffers are made at the beginning, or by the first exchange, and kept. One exchange is in flight
// at most; several would be several Exchanges, each with leaders of another name.
//
// In a world for a view an exchange is a transaction: it begins if the view has not
// ended, and counts if all nodes have got the whole answer. Else it is abandoned by all, and as if
// it had never begun. All ranks of a node get the same answers. A node that is alone in its view
// sends nothing; its parameters become its anchor.
class Exchange {
 public:
  // All is borrowed but the rule and the lane, which is null for that of the model's device. All
  // ranks make theirs together.
  Exchange(World& world, const FlatModel& model, const Leaders& leaders,
           const ExchangeOptions& options, std::unique_ptr<OuterRule> rule,
           std::unique_ptr<Lane> lane = nullptr);

  // The parameters as they are now, equal on all nodes, become the anchor.
  void set_anchor();
  // False: nothing begins, since the view has ended.
  bool start(std::int64_t exchange);
  // False: it is abandoned. Throws PeerError; Error if what travelled was not finite, or copies
  // that should be equal are not.
  bool merge(std::int64_t staleness);
  // Throws the same if the exchange in flight has failed by now; does not wait for it.
  void check();

  // What rounding has left out of the means that this rank owns, as an agreement takes it. Nothing
  // may be in flight.
  std::vector<at::Tensor> residuals() const;

  // Waits for the answer of an exchange in flight, and until it counts. False: nothing is in
  // flight, or it is abandoned now.
  bool settle();

  // Settles an exchange in flight, which then is part of the state. In a world for a view all ranks
  // of the node call it together, and the state fits a world of any number of nodes.
  State state();
  // What a node goes on with that joins this one, in the next view: the anchor as it is after the
  // merge of an exchange in flight, and nothing in flight. As state(); this node's own stays.
  State state_for_joiner();
  // All of the anchor as it is now, on the host; an exchange may be in flight. All ranks of the
  // node call it together.
  at::Tensor anchor();
  // Of each exchange that counts from now on (outer_rule.h), on the training thread;
  // state_for_joiner() tells of one in flight. Empty: of none any more.
  void on_answer(OnAnswer tell) { on_answer_ = std::move(tell); }
  // A state without an anchor is that of an epoch's end on another number of ranks: set_anchor()
  // then comes before the next start.
  void load_state(const State& state);
  bool in_flight() const { return in_flight_; }
  // At every change of view: what rounding has left out belongs to owners that may be gone.
  void clear_residuals();

  Costs costs() const { return costs_; }  // up to the last merge
  // How far the nodes were apart, at the last merge of a slice that this rank led
  // (StrategyStatus::distance).
  std::optional<double> distance() const { return distance_; }

 private:
  // Of a slice: its rows of the model; its bytes in own_ and back_; its elements of a flat tensor;
  // its anchor, where this rank keeps it, else nothing.
  Segment rows_of(int slice) const;
  std::span<std::byte> encoded(const at::Tensor& all, int slice) const;
  std::span<float> elements(const at::Tensor& flat, int slice) const;
  std::span<float> anchor_of(int slice) const;
  std::int64_t padded_rows(std::int64_t rows) const;  // as many as divide by the nodes
  std::int64_t kept_rows() const;                     // of the slice kept_
  // Of a tensor that has the padded rows of the slice kept_, or of one that has what a node owns of
  // them: the rows of a piece.
  at::Tensor piece_of(const at::Tensor& slice, const Segment& piece) const;
  at::Tensor owned_of(const at::Tensor& segments, const Segment& piece) const;

  // The same from those ranks of the node that keep it, over this link.
  at::Tensor anchor_over(NodeLink& node);
  void tell_answer() const;
  // The rows of the model in own_here_ or back_here_, without those behind the slices; and the way
  // back.
  at::Tensor rows_in(const at::Tensor& all) const;
  void restore_rows(const State& state, const std::string& name, const at::Tensor& all) const;
  bool answer_is_here();  // once the exchange thread has ended; false: nodes were lost meanwhile

  // Of what a sender encodes in the exchange in flight, from a row of the model on.
  Draws draws_of(std::int64_t sender, std::int64_t first_row) const;

  // Encodes what this rank leads of the parameters, and fills header_.
  void encode(const Role& role, const at::Tensor& parameters);

  // On the exchange thread.
  void run(const Role& role, const LaneMark& started);
  void exchange_with_peers(const Role& role);
  std::int64_t first_bad(int slice) const;  // the first element that cannot travel; -1: not known
  std::string name_at(std::int64_t element) const;
  void compare_headers(const Role& role, Pending arriving);
  void average(const Role& role, const Segment& piece, const at::Tensor& received,
               const at::Tensor& answer);

  World& world_;
  const FlatModel& model_;
  const Leaders& leaders_;
  const ExchangeOptions options_;
  const std::unique_ptr<OuterRule> rule_;
  const std::unique_ptr<Lane> lane_;
  const bool on_host_;  // where the model is: the exchange thread encodes
  Views* const views_;  // null in a world for good
  NodeLink& node_;      // of memory of the host
  HierarchicalMean mean_;
  const std::optional<int> kept_;      // the slice whose anchor and residuals this rank keeps
  const std::int64_t rows_;            // of the model, kFlatBlock elements each
  const std::int64_t width_;           // rows of each slice in own_ and back_
  const std::vector<Segment> pieces_;  // of the slice kept_
  at::Tensor snapshot_;  // of the parameters at the start; undefined where nobody needs one
  at::Tensor anchor_;    // of the slice kept_, in rows of kFlatBlock
  at::Tensor own_;       // what this node sends, encoded: [slices * width_, bytes of a block]
  at::Tensor back_;      // what comes back, likewise
  at::Tensor header_;    // what goes ahead of a slice, a row
  // These are on the host; the first three are the same tensors as above where the model is.
  at::Tensor own_here_;
  at::Tensor back_here_;
  at::Tensor header_here_;
  at::Tensor headers_;        // from all peers
  at::Tensor residual_;       // what the means that this rank owns have left out
  at::Tensor next_residual_;  // the same after the exchange in flight
  bool in_flight_ = false;
  bool settled_ = false;                 // it counts
  std::int64_t exchange_ = 0;            // the one in flight
  int nodes_in_flight_ = 1;              // that take part in it
  Clock::time_point started_;            // when it began
  std::optional<double> next_distance_;  // of its slice
  std::optional<double> distance_;
  OnAnswer on_answer_;
  Costs costs_;
  const LaneEnd end_;
  Worker worker_;  // last: it uses all of the above
};

}  // namespace daso
