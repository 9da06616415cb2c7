// SPDX-License-Identifier: Apache-2.0
#include "membership/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "daso/base/random.h"

namespace daso::membership {
namespace {

constexpr double kFaultsFrom = 0.3;
constexpr double kFaultsUntil = 3;

struct KindRow {
  std::string_view name;
  unsigned weight;  // how often it is drawn
  double longest;   // seconds; 0: it happens at once
};
// In the order of Fault::Kind.
constexpr std::array<KindRow, 14> kKinds = {{{"crash", 4, 0},
                                             {"power loss", 2, 0},
                                             {"crash at", 5, 0},
                                             {"restart", 6, 0},
                                             {"pause", 4, 2.2},
                                             {"cut", 4, 2.2},
                                             {"split", 3, 2.2},
                                             {"drop", 2, 1.5},
                                             {"slow", 2, 1},
                                             {"false death", 1, 0},
                                             {"leave", 2, 0},
                                             {"no witness", 1, 1},
                                             {"ranks die", 4, 0},
                                             {"renew", 0, 0}}};

const KindRow& row_of(Fault::Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

Fault::Kind draw_kind(RandomStream& random) {
  unsigned all = 0;
  for (const KindRow& row : kKinds) all += row.weight;
  auto left = random.below(all);
  std::size_t kind = 0;
  while (left >= kKinds[kind].weight) left -= kKinds[kind++].weight;
  return static_cast<Fault::Kind>(kind);
}

Fault draw_fault(RandomStream& random, unsigned nodes) {
  Fault fault{.kind = draw_kind(random)};
  fault.at = kFaultsFrom + random.fraction() * (kFaultsUntil - kFaultsFrom);
  fault.length = row_of(fault.kind).longest * random.fraction();
  fault.node = static_cast<unsigned>(random.below(nodes));
  fault.other = static_cast<unsigned>(random.below(nodes));
  switch (fault.kind) {
    case Fault::Kind::kCrashAt:
      fault.other = static_cast<unsigned>(1 + random.below(8));
      fault.detail = static_cast<unsigned>(random.below(14));
      break;
    case Fault::Kind::kCut:
    case Fault::Kind::kFalseDeath:
      fault.detail = static_cast<unsigned>(random.below(2));
      break;
    case Fault::Kind::kSplit:
      fault.detail = static_cast<unsigned>(1 + random.below((1U << nodes) - 2));
      break;
    case Fault::Kind::kDrop:
      fault.detail = static_cast<unsigned>(5 + random.below(60));
      break;
    case Fault::Kind::kSlow:
      fault.detail = static_cast<unsigned>(2 + random.below(30));
      break;
    default:
      break;
  }
  return fault;
}

}  // namespace

double Script::quiet_from() const {
  double quiet = kFaultsFrom;
  for (const Fault& fault : faults) {
    // A crash that waits for its moment waits no longer than faults are drawn for.
    const double begin = fault.kind == Fault::Kind::kCrashAt ? kFaultsUntil : fault.at;
    quiet = std::max(quiet, begin + fault.length);
  }
  return quiet;
}

Script draw_script(std::uint64_t seed) {
  RandomStream random{seed, 1};
  Script script{.seed = seed};
  // Small worlds are cheaper, and know most of the trouble.
  constexpr std::array<unsigned, 10> kNodes = {2, 3, 3, 3, 4, 4, 5, 5, 6, 7};
  script.nodes = kNodes[random.below(kNodes.size())];
  script.tie_break = random.below(2) == 0;
  script.in_flight = static_cast<unsigned>(1 + random.below(3));
  script.slowness = random.below(3) == 0 ? 5 : 1;
  const auto faults = random.below(9);
  for (std::uint64_t i = 0; i < faults; ++i) {
    script.faults.push_back(draw_fault(random, script.nodes));
  }
  // Drawn by a stream of its own, so that seeds keep the other faults that they had without it.
  RandomStream more{seed, 2};
  if (more.below(3) == 0) {
    script.faults.push_back(
        {.kind = Fault::Kind::kRenew,
         .at = kFaultsFrom + more.fraction() * (kFaultsUntil - kFaultsFrom),
         .node = static_cast<unsigned>(more.below(script.nodes))});
  }
  std::ranges::sort(script.faults, {}, &Fault::at);
  return script;
}

std::string text(const Script& script) {
  std::string out =
      fmt::format("seed {}: {} nodes, {} in flight, {} tie-break, slowness {}\n", script.seed,
                  script.nodes, script.in_flight, script.tie_break ? "a" : "no", script.slowness);
  for (const Fault& fault : script.faults) {
    out +=
        fmt::format("  {:.3f} s  {}, node {}, other {}, detail {}, for {:.3f} s\n", fault.at,
                    row_of(fault.kind).name, fault.node, fault.other, fault.detail, fault.length);
  }
  return out;
}

Script shrink(Script script, const std::function<bool(const Script&)>& fails) {
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (std::size_t i = 0; i < script.faults.size(); ++i) {
      Script less = script;
      less.faults.erase(less.faults.begin() + static_cast<std::ptrdiff_t>(i));
      if (!fails(less)) continue;
      script = std::move(less);
      shorter = true;
      break;
    }
  }
  return script;
}

}  // namespace daso::membership
