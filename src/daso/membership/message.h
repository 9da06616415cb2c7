// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daso/membership/report.h"

// What launchers say to each other. Any of it may be lost, repeated, overtaken and late.
namespace daso::membership {

// Ballots are ordered, and no two proposers have the same.
struct Ballot {
  std::uint64_t round = 0;  // 0: none
  NodeId node = 0;          // the proposer's; it has one incarnation in a view
  // clang-tidy 14 finds a 0 in what the compiler makes of it.
  auto operator<=>(const Ballot&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Within a view, at every period and after every change: I live, and these are my votes.
struct Pulse {
  Progress progress;
  bool leaving = false;            // on purpose, and nothing is in flight
  std::vector<Member> candidates;  // joiners that are ready and that I hear
  bool operator==(const Pulse&) const = default;
};

// Phase 1 of a ballot, and its answers. A promise is also the report with which the old view ends
// for who gives it.
struct Prepare {
  Ballot ballot;
  bool operator==(const Prepare&) const = default;
};
struct AcceptedView {
  Ballot ballot;
  View view;
  bool operator==(const AcceptedView&) const = default;
};
struct Promise {
  Ballot ballot;
  Report report;
  std::optional<AcceptedView> accepted;  // that of the highest ballot
  bool operator==(const Promise&) const = default;
};
// To Prepare or Accept of a ballot that is too low.
struct Reject {
  Ballot ballot;
  Ballot promised;
  bool operator==(const Reject&) const = default;
};

// Phase 2.
struct Accept {
  Ballot ballot;
  View view;
  bool operator==(const Accept&) const = default;
};
struct Accepted {
  Ballot ballot;
  bool operator==(const Accepted&) const = default;
};

// To whoever does not seem to know: members of the old view and of the new one, stragglers,
// joiners.
struct Decided {
  View view;
  bool operator==(const Decided&) const = default;
};

// From a node that is no member.
struct Join {
  bool ready = false;  // it has caught up, and hears every member of the view
  std::string
      copy_to;  // asks this member for a copy of the run, to be sent there; empty: it does not
  bool operator==(const Join&) const = default;
};
// To one that has asked for a copy: there is none to be had now, so it is to enter without.
struct NoCopy {
  bool operator==(const NoCopy&) const = default;
};

using Body = std::variant<Pulse, Prepare, Promise, Reject, Accept, Accepted, Decided, Join, NoCopy>;

struct Message {
  Member from;
  ViewNumber view =
      0;  // that the sender is in (Pulse, Join), that is being decided, that is decided
  Body body;
  bool operator==(const Message&) const = default;
};

std::string_view name_of(const Body& body);

// More than these no message carries.
inline constexpr std::size_t kMostMembers = 1024;
inline constexpr std::size_t kMostMessageBytes = 131072;
inline constexpr std::size_t kMostTextBytes = 256;

// Numbers with the lowest byte first. Length, checksum and proof of who sends belong to the frame
// around it.
std::vector<std::byte> encode(const Message& message);
// None for what encode() does not write: other kinds, bytes missing or left over, lists that are
// too long or not in order. Never throws for what it reads, and allocates no more than was sent.
std::optional<Message> decode(std::span<const std::byte> bytes);

}  // namespace daso::membership
