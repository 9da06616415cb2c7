// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daso/comm/tcp/integrity.h"

// How the two ends of a new connection prove to each other that they belong to one job, before
// either reads anything else:
//
//   dialler   who I am, whom I want, for what, of which view; a number that nobody has used before
//   acceptor  a number of its own, and the proof: HMAC of all that was said, with the job's key
//   dialler   its proof, of the same
//
// The proofs begin with different words, so neither can be the answer to the other. What follows is
// checked for damage, not against somebody on the way who changes it.
namespace daso::tcp {

// What a connection is for. Ranks and launchers of a job have one key, so it does not tell who has
// called the wrong port; this does.
enum class Service : std::uint32_t { kRanks, kLaunchers, kTable };

struct Introduction {
  int from = 0;
  int to = 0;
  std::uint64_t view = 0;
  Service service = Service::kRanks;
};

// One end of it, on bytes alone: what to send, how many bytes are awaited, and what came of them.
class Handshake {
 public:
  // The key is the job's. A dialler introduces itself, an acceptor learns who comes.
  static Handshake dial(const std::string& key, const Introduction& introduction);
  static Handshake accept(const std::string& key, int own_rank, std::uint64_t view,
                          Service service = Service::kRanks);

  // To be sent now; gives it once.
  std::vector<std::byte> take_outgoing();
  // So many bytes come next; 0 once it is over.
  std::size_t awaited() const;
  // Takes them. False: whoever it is does not belong here.
  bool take(std::span<const std::byte> bytes);

  const Introduction& introduction() const { return introduction_; }

 private:
  Handshake(std::string key, bool dials) : key_(std::move(key)), dials_(dials) {}
  Digest proof(const char* role) const;

  std::string key_;
  bool dials_;
  Introduction introduction_;
  Introduction awaited_introduction_;  // an acceptor's, but for who comes
  std::vector<std::byte> said_;        // by both, before the proofs
  std::vector<std::byte> outgoing_;
  std::size_t awaited_ = 0;
  bool proved_ = false;  // an acceptor's own proof is on its way
};

}  // namespace daso::tcp
