// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include "daso/base/text.h"
#include "daso/base/version.h"
#include "daso/comm/world.h"

// Needs the installed headers, LibTorch's headers behind them, and libdaso.so at run time.
int main() {
  const daso::World world = daso::World::alone();
  const daso::Topology topology = daso::Topology::from_names({"a", "b", "a"});
  const std::string nearest = daso::nearest("glo", {"gloo", "mpi"}).value_or("nothing");
  std::printf("daso %s: world of %d, %d nodes, %s\n", daso::kVersion, world.size(),
              topology.nodes(), nearest.c_str());
  return 0;
}
