// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/comm/communicator.h"

namespace daso {

// A slice travels between nodes in pieces, one behind the other: while one is averaged and goes
// back, the next is on its way, so that links do not idle between two phases.
inline constexpr int kMostPieces = 8;

// How many rows are cut: into fewer pieces where they would be small. All but the last have as many
// rows as divide by the nodes, each of which owns a segment of each piece.
std::vector<Segment> pieces_of(std::int64_t rows, int nodes);

}  // namespace daso
