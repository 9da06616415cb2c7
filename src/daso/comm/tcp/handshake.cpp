// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "daso/base/error.h"

namespace daso::tcp {
namespace {

using Nonce = std::array<std::byte, 32>;

struct Hello {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t from;
  std::uint32_t to;
  std::uint32_t service;
  std::uint64_t view;
  Nonce nonce;
};
static_assert(sizeof(Hello) == 64);

struct Reply {
  Nonce nonce;
  Digest proof;
};
static_assert(sizeof(Reply) == 64);

constexpr std::array<char, 8> kMagic = {'D', 'A', 'S', 'O', 'M', 'A', 'I', 'L'};
constexpr std::uint32_t kProtocol = 2;
constexpr const char* kDialler = "dialler";
constexpr const char* kAcceptor = "acceptor";

Nonce fresh_nonce() {
  Nonce nonce{};
  DASO_ASSERT(::getrandom(nonce.data(), nonce.size(), 0) == std::ssize(nonce));
  return nonce;
}

template <typename Value>
void append(std::vector<std::byte>& bytes, const Value& value) {
  const auto more = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), more.begin(), more.end());
}

template <typename Value>
Value read(std::span<const std::byte> bytes) {
  Value value{};
  DASO_ASSERT(bytes.size() == sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

Handshake Handshake::dial(const std::string& key, const Introduction& introduction) {
  Handshake handshake(key, /*dials=*/true);
  handshake.introduction_ = introduction;
  append(handshake.said_, Hello{.magic = kMagic,
                                .version = kProtocol,
                                .from = static_cast<std::uint32_t>(introduction.from),
                                .to = static_cast<std::uint32_t>(introduction.to),
                                .service = static_cast<std::uint32_t>(introduction.service),
                                .view = introduction.view,
                                .nonce = fresh_nonce()});
  handshake.outgoing_ = handshake.said_;
  handshake.awaited_ = sizeof(Reply);
  return handshake;
}

Handshake Handshake::accept(const std::string& key, int own_rank, std::uint64_t view,
                            Service service) {
  Handshake handshake(key, /*dials=*/false);
  handshake.awaited_introduction_ = {.to = own_rank, .view = view, .service = service};
  handshake.awaited_ = sizeof(Hello);
  return handshake;
}

std::vector<std::byte> Handshake::take_outgoing() { return std::exchange(outgoing_, {}); }

std::size_t Handshake::awaited() const { return awaited_; }

Digest Handshake::proof(const char* role) const {
  const auto word = std::as_bytes(std::span(role, std::strlen(role)));
  std::vector<std::byte> message(word.begin(), word.end());
  message.insert(message.end(), said_.begin(), said_.end());
  return hmac_sha256(key_, message);
}

bool Handshake::take(std::span<const std::byte> bytes) {
  DASO_ASSERT(awaited_ > 0 && bytes.size() == awaited_);
  awaited_ = 0;
  if (dials_) {
    const auto answer = read<Reply>(bytes);
    append(said_, answer.nonce);
    if (!equal(answer.proof, proof(kAcceptor))) return false;
    append(outgoing_, proof(kDialler));
    return true;
  }
  if (proved_) return equal(read<Digest>(bytes), proof(kDialler));
  const auto hello = read<Hello>(bytes);
  const Introduction& wanted = awaited_introduction_;
  if (hello.magic != kMagic || hello.version != kProtocol || hello.view != wanted.view ||
      hello.to != static_cast<std::uint32_t>(wanted.to) ||
      hello.service != static_cast<std::uint32_t>(wanted.service)) {
    return false;
  }
  introduction_ = wanted;
  introduction_.from = static_cast<int>(hello.from);
  said_.assign(bytes.begin(), bytes.end());
  const Nonce nonce = fresh_nonce();
  append(said_, nonce);
  append(outgoing_, Reply{.nonce = nonce, .proof = proof(kAcceptor)});
  awaited_ = sizeof(Digest);
  proved_ = true;
  return true;
}

}  // namespace daso::tcp
