// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/nodes_mean.h"

#include "daso/base/error.h"
#include "daso/exchange/pieces.h"
#include "daso/tensor/flat_model.h"

namespace daso {

NodesMean::NodesMean(World& world, const Leaders& leaders)
    : world_(world),
      leaders_(leaders),
      node_(world.node_link("exchange")),
      means_(leaders.turns()) {
  for (std::size_t i = 0; i < leaders.turns(); ++i) {
    const Peers& peers = leaders.turn(i).peers;
    if (peers.group == nullptr) continue;
    for (int piece = 0; piece < kMostPieces; ++piece) {
      means_[i].push_back(std::make_unique<OrderedMean>(*peers.group, peers.shares));
    }
  }
}

void NodesMean::operator()(const at::Tensor& tensor, std::int64_t exchange,
                           const std::vector<at::Tensor>& residuals) {
  const std::size_t number = leaders_.turn_of(exchange);
  const Turn& turn = leaders_.turn(number);
  const at::Tensor rows = tensor.view({-1, kFlatBlock});
  if (turn.slice) {
    const Segment own = segment_of(rows.size(0), turn.slices.slices, *turn.slice);
    mean_of(rows.narrow(0, own.begin, own.length()), number, residuals);
  }
  node_.gather(rows, turn.slices, world_.limit());
}

void NodesMean::mean_of(const at::Tensor& slice, std::size_t turn,
                        const std::vector<at::Tensor>& residuals) {
  const std::vector<Segment> pieces = pieces_of(slice.size(0), world_.topology().nodes());
  DASO_ASSERT(residuals.empty() || residuals.size() == pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const at::Tensor piece = slice.narrow(0, pieces[i].begin, pieces[i].length());
    means_[turn][i]->start(piece);
    bytes_between_nodes_ += means_[turn][i]->bytes_sent(piece);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    means_[turn][i]->turn(world_.limit(), residuals.empty() ? at::Tensor() : residuals[i]);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) means_[turn][i]->finish(world_.limit());
}

}  // namespace daso
