// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "daso/comm/owner_reduce.h"
#include "daso/comm/world.h"
#include "daso/exchange/leaders.h"
#include "daso/tensor/lane.h"

namespace daso {

// What communication has cost one rank so far, besides the waits that the world's timeline counts.
struct Costs {
  double background_seconds = 0;         // threads were busy with it, waited for or not
  std::int64_t bytes_between_nodes = 0;  // sent by this rank

  Costs& operator+=(const Costs& other);
};
Costs operator+(Costs sum, const Costs& other);

// Does `task`, which waits for other nodes. In a world that ends with its view a lost node ends
// what travels between nodes, not what the ranks of a node do together: a rank that goes on would
// wait there for one that has given up. So all ranks of a node call this, and a PeerError of one is
// thrown on all. `home` is a link of the node for tensors of the CPU; null in a world for good,
// where the alarm reaches everybody.
void wait_for_nodes(NodeLink* home, Seconds limit, const std::function<void()>& task);

// The mean over the nodes of what their ranks hold, in pieces: while one piece is averaged and its
// mean goes back, the next are on their way, so that links do not idle between two phases. Whoever
// averages something over several nodes does it here: gradients, agreements, exchanges.
//
//   in the node    the mean of its ranks, where they do not hold the same
//   between nodes  each leader sends its slice to its peers, owner by owner; the owner applies a
//                  rule to the segments it has received, and its answer goes to all peers
//   in the node    everybody gathers what the leaders have
//
// Between nodes everything goes through memory of the host: what lies on a device is copied there
// and back by a lane, piece by piece.
//
// The pieces follow each other in three steps (send, answer, receive; OwnerReduce). A piece is
// answered once `ahead` others have been sent behind it, and received once `ahead` others have been
// answered behind it; finish() does the rest. One thread at a time may call it.
//
// Where the backend does not check what it carries, finish() compares sums of what was sent to
// owners with those of what they got.
class HierarchicalMean {
 public:
  using Done = std::function<void()>;

  // A piece of the slice that this rank leads, on its way between nodes; in memory of the host.
  struct Piece {
    at::Tensor input;        // undefined: this rank follows, and the piece only keeps its place
    at::Tensor output;       // of the same size, where the answer goes; may be the input
    OwnerReduce::Rule rule;  // of the segment that this rank owns
    Done done = {};          // called when the output is there
  };

  // All is borrowed. `node` and `lane` are for the two averages below alone, and for tensors of the
  // lane's device.
  HierarchicalMean(World& world, NodeLink& node, Lane& lane, const Leaders& leaders,
                   std::size_t ahead);

  // All pieces up to finish() belong to one exchange, whose number says who leads. Throws as
  // Pending::wait does, here and below, PeerError if something was damaged on its way, and what a
  // rule throws.
  void start(std::int64_t exchange, Piece piece);
  void finish();

  // A float32 tensor that differs on all ranks becomes its mean over them, each rank counting
  // equally, up to finish(): a piece with all of the steps above. All ranks of a node call it, and
  // the lane is the caller (Lane::run()), here and below. In a world for a view a PeerError is
  // thrown on all ranks of the node, when the same piece is due on each.
  void start_average_of_ranks(const at::Tensor& tensor, Done done);

  // A float32 tensor of whole rows of kFlatBlock elements that the ranks of a node hold in common
  // becomes its weighted mean over the nodes. `residuals` are what the owner of a segment adds to
  // its mean and sets to 0: of each of pieces_of() the rows that this rank owns, or nothing at all.
  // Bits do not depend on who leads. Blocks. In a world for a view a PeerError is thrown on all
  // ranks of the node; the tensor and the residuals then hold nothing of use, and this object
  // can average no more.
  void average_of_nodes(const at::Tensor& tensor, std::int64_t exchange,
                        const std::vector<at::Tensor>& residuals = {});

  std::int64_t bytes_between_nodes() const { return bytes_between_nodes_; }  // sent by this rank

 private:
  struct Flight {
    Piece piece;
    OwnerReduce* reduce = nullptr;    // null: this rank follows
    bool of_ranks = false;            // all ranks of the node wait for it together
    std::exception_ptr failure = {};  // of such a one, until they do
  };

  void start_flight(std::int64_t exchange, Piece piece, bool of_ranks);
  Flight& flight(std::size_t number) { return flights_[number % flights_.size()]; }
  // Does what a piece needs of other nodes; a failure of one that the node waits for together is
  // kept until then.
  void try_for(Flight& flight, const std::function<void()>& task);
  void answer_oldest();
  void receive_oldest();
  void refuse_damaged(SentSums& sums);
  at::Tensor on_host(const at::Tensor& tensor);

  World& world_;
  NodeLink& node_;
  Lane& lane_;
  const Leaders& leaders_;
  const std::size_t ahead_;
  NodeLink* const home_;                  // for wait_for_nodes()
  std::vector<Flight> flights_;           // a ring
  std::map<std::size_t, SentSums> sums_;  // by role in which this rank leads, if they are needed
  std::vector<std::vector<OwnerReduce>> reductions_;  // by role, then by place in the ring
  std::optional<std::int64_t> exchange_;              // of the pieces that it leads since finish()
  std::size_t sent_ = 0;  // pieces since the last finish() that have taken the step of this name
  std::size_t answered_ = 0;
  std::size_t received_ = 0;
  std::int64_t bytes_between_nodes_ = 0;
};

// Rows in pieces of `length`, the last of which may be shorter; at least one piece, be it empty.
std::vector<Segment> cut_in_pieces(std::int64_t rows, std::int64_t length);

// How long a piece is depends on what travels. Gradients are cut bucket by bucket as they come,
// finer than parameters. Of parameters the slice of a leader is cut, in at most kMostPieces, fewer
// where they would be small, and each node owns a segment of each piece: all pieces but the last
// have rows that divide by the nodes. Checkpoints hold residuals in the order of these pieces.
inline constexpr int kMostPieces = 8;
std::int64_t gradient_piece(std::int64_t model_elements, std::int64_t bucket_elements);
std::vector<Segment> pieces_of(std::int64_t rows, int nodes);

}  // namespace daso
