// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// What goes wrong in one simulated run, as a list that can be printed and made shorter.
namespace daso::membership {

struct Fault {
  enum class Kind {
    kCrash,      // the node's launcher and ranks are gone; others see a reset connection
    kPowerLoss,  // gone as well, but others hear nothing
    kCrashAt,  // gone just before its launcher does a thing of kind `detail` for the `other`th time
    kRestart,  // a node that is gone comes back with a new incarnation
    kPause,    // SIGSTOP, then SIGCONT
    kCut,      // nothing gets from node to other; with detail neither back
    kSplit,    // the nodes of the set `detail` and the rest do not reach each other
    kDrop,     // a share of messages, `detail` percent, is lost
    kSlow,     // messages and answers take `detail` times as long
    kFalseDeath,  // node is told that other died; with detail other hears the same of node
    kLeave,       // on purpose
    kNoWitness,   // the tie-break does not answer
    kRanksDie,    // of a node whose launcher lives
    kRenew        // the node's ranks have trouble that no loss explains
  };
  Kind kind = Kind::kCrash;
  double at = 0;  // seconds
  double length = 0;
  unsigned node = 0;
  unsigned other = 0;
  unsigned detail = 0;
};

struct Script {
  std::uint64_t seed = 0;  // of all other chance: delays, losses, copies
  unsigned nodes = 2;
  bool tie_break = false;
  unsigned in_flight = 1;  // exchanges at a time
  unsigned slowness = 1;   // of the network: messages cross each other more often
  std::vector<Fault> faults;

  double quiet_from() const;  // when the last fault is over
};

Script draw_script(std::uint64_t seed);
std::string text(const Script& script);

// Leaves out faults one by one as long as `fails` holds.
Script shrink(Script script, const std::function<bool(const Script&)>& fails);

}  // namespace daso::membership
