// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/letter.h"

#include <cstring>

#include "daso/base/error.h"

namespace daso::tcp {
namespace {

void check_length(std::size_t sent, std::size_t awaited) {
  if (sent == awaited) return;
  throw PeerError(fmt::format("it sent {} bytes where {} were awaited", sent, awaited));
}

}  // namespace

std::span<std::byte> Letterbox::room_for(const Tag& tag, std::size_t length) {
  if (arriving_.contains(tag) || stored_.contains(tag)) {
    throw PeerError(fmt::format("it sent letter {}/{} twice", tag.group, tag.number));
  }
  const auto expected = expected_.find(tag);
  if (expected == expected_.end()) {
    Stored& stored = stored_[tag];
    stored.bytes.resize(length);
    bytes_waiting_ += length;
    return stored.bytes;
  }
  check_length(length, expected->second.into.size());
  const std::span<std::byte> into = expected->second.into;
  arriving_.insert(expected_.extract(expected));
  return into;
}

Done Letterbox::arrived(const Tag& tag) {
  if (auto arriving = arriving_.extract(tag)) return std::move(arriving.mapped().done);
  const auto stored = stored_.find(tag);
  DASO_ASSERT(stored != stored_.end());
  stored->second.whole = true;
  if (!stored->second.asked.done) return {};
  const auto claimed = stored_.extract(stored);
  Expected& asked = claimed.mapped().asked;
  const std::vector<std::byte>& bytes = claimed.mapped().bytes;
  if (!bytes.empty()) std::memcpy(asked.into.data(), bytes.data(), bytes.size());
  bytes_waiting_ -= bytes.size();
  return std::move(asked.done);
}

bool Letterbox::expect(const Tag& tag, std::span<std::byte> into, Done& done) {
  const auto stored = stored_.find(tag);
  if (stored == stored_.end()) {
    expected_[tag] = {.into = into, .done = std::move(done)};
    return false;
  }
  check_length(stored->second.bytes.size(), into.size());
  if (!stored->second.whole) {
    stored->second.asked = {.into = into, .done = std::move(done)};
    return false;
  }
  if (!into.empty()) std::memcpy(into.data(), stored->second.bytes.data(), into.size());
  bytes_waiting_ -= into.size();
  stored_.erase(stored);
  return true;
}

std::optional<std::vector<std::byte>> Letterbox::take(const Tag& tag) {
  const auto stored = stored_.find(tag);
  if (stored == stored_.end() || !stored->second.whole) return std::nullopt;
  std::vector<std::byte> bytes = std::move(stored->second.bytes);
  bytes_waiting_ -= bytes.size();
  stored_.erase(stored);
  return bytes;
}

std::vector<Done> Letterbox::give_up() {
  std::vector<Done> all;
  for (auto& [tag, expected] : expected_) all.push_back(std::move(expected.done));
  for (auto& [tag, arriving] : arriving_) all.push_back(std::move(arriving.done));
  for (auto& [tag, stored] : stored_) {
    if (stored.asked.done) all.push_back(std::move(stored.asked.done));
  }
  expected_.clear();
  arriving_.clear();
  std::erase_if(stored_, [this](const auto& one) {
    if (!one.second.whole) bytes_waiting_ -= one.second.bytes.size();
    return !one.second.whole;
  });
  return all;
}

}  // namespace daso::tcp
