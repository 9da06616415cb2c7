// SPDX-License-Identifier: Apache-2.0
#include "daso/global/nodes_mean.h"

#include "daso/model/flat_model.h"

namespace daso {

NodesMean::NodesMean(World& world, const Speakers& speakers)
    : world_(world), speakers_(speakers), node_(world.node_link("exchange")) {
  for (std::size_t i = 0; i < speakers.turns(); ++i) {
    const Peers& peers = speakers.turn(i).peers;
    means_.push_back(peers.group == nullptr
                         ? nullptr
                         : std::make_unique<OrderedMean>(*peers.group, peers.shares));
  }
}

void NodesMean::operator()(const at::Tensor& tensor, std::int64_t exchange,
                           const at::Tensor& rest) {
  const std::size_t number = speakers_.turn_of(exchange);
  const Turn& turn = speakers_.turn(number);
  const at::Tensor rows = tensor.view({-1, kFlatBlock});
  if (turn.slice) {
    const Segment own = segment_of(rows.size(0), turn.slices.slices, *turn.slice);
    const at::Tensor slice = rows.narrow(0, own.begin, own.length());
    (*means_[number])(slice, world_.limit(), rest);
    bytes_between_nodes_ += means_[number]->bytes_sent(slice);
  }
  node_.gather(rows, turn.slices, world_.limit());
}

}  // namespace daso
