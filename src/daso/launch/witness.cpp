// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/witness.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>

#include <algorithm>
#include <cctype>
#include <condition_variable>
#include <mutex>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/comm/socket_address.h"

namespace daso {

using membership::Member;

namespace {

// No node has this number, so that a launcher's port is not taken for a witness.
constexpr membership::NodeId kWitness = UINT32_MAX;
constexpr std::size_t kMostClaims = 100'000;  // who knows the key may still be broken

bool is_view_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostViewName &&
         std::ranges::all_of(name, [](char letter) {
           return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-';
         });
}

std::vector<std::byte> bytes_of(const HalfClaim& claim) {
  const std::string line = text(claim);
  const auto bytes = std::as_bytes(std::span(line));
  return {bytes.begin(), bytes.end()};
}

std::optional<HalfClaim> claim_in(std::span<const std::byte> message) {
  return parse_claim({reinterpret_cast<const char*>(message.data()), message.size()});
}

}  // namespace

std::string text(const HalfClaim& claim) {
  return fmt::format("{} {}", claim.view, text_of_half(claim.half));
}

std::optional<HalfClaim> parse_claim(std::string_view line) {
  const std::vector<std::string> words = split(line, ' ');
  if (words.size() != 2 || !is_view_name(words[0])) return std::nullopt;
  auto half = parse_half(words[1]);
  if (!half) return std::nullopt;
  return HalfClaim{.view = words[0], .half = *std::move(half)};
}

// --- what a witness remembers ---

Claims::Claims(std::filesystem::path file) : path_(std::move(file)) {
  if (path_.empty()) return;
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  require(file_.open(), "the witness's file {} cannot be opened: {}", path_.string(),
          std::strerror(errno));
  require(::flock(file_.get(), LOCK_EX | LOCK_NB) == 0, "{} is the file of another witness",
          path_.string());
  load();
}

void Claims::load() {
  const std::string all = read_file(path_);
  // What comes after the last new line was being written when a witness ended: nobody was told.
  const std::size_t whole = all.rfind('\n') + 1;
  kept_bytes_ = static_cast<std::int64_t>(whole);
  for (const std::string& line : split(std::string_view(all).substr(0, whole), '\n')) {
    if (line.empty()) continue;
    const std::optional<HalfClaim> claim = parse_claim(line);
    require(claim.has_value(), "{} is no witness's file: it says '{}'", path_.string(), line);
    claims_.try_emplace(claim->view, *claim);
  }
}

bool Claims::keep(const HalfClaim& claim) {
  if (claims_.size() >= kMostClaims) return false;
  if (!file_.open()) return true;
  const std::string line = text(claim) + "\n";
  // Part of an earlier line may be there, that could not be written to its end.
  const bool written =
      ::ftruncate(file_.get(), kept_bytes_) == 0 &&
      ::pwrite(file_.get(), line.data(), line.size(), kept_bytes_) == std::ssize(line) &&
      ::fsync(file_.get()) == 0;
  if (written) kept_bytes_ += std::ssize(line);
  return written;
}

std::optional<HalfClaim> Claims::first(const HalfClaim& claim) {
  const auto known = claims_.find(claim.view);
  if (known != claims_.end()) return known->second;
  if (!keep(claim)) return std::nullopt;
  return claims_.emplace(claim.view, claim).first->second;
}

// --- the two ends ---

Witness::Witness(Options options)
    : address_(bound_address(options.listening)),
      claims_(options.file),
      switchboard_({.self = {.node = kWitness},
                    .key = std::move(options.key),
                    .listening = std::move(options.listening)},
                   {.on_message = [this](const Member& from, std::span<const std::byte> message) {
                     const std::optional<HalfClaim> claim = claim_in(message);
                     const auto first = claim ? claims_.first(*claim) : std::nullopt;
                     if (first) switchboard_.send(from.node, bytes_of(*first));
                   }}) {}

WitnessTieBreak::WitnessTieBreak(Options options) : options_(std::move(options)) {
  require(!options_.key.empty(), "a witness is asked with a key, and got an empty one");
  static_cast<void>(SocketAddress(options_.witness));
}

std::optional<std::vector<Member>> WitnessTieBreak::claim(const membership::View& view,
                                                          const std::vector<Member>& half) {
  try {
    return ask({.view = name_of(view), .half = half});
  } catch (const std::exception& problem) {  // no descriptor is left for it
    trouble_ = problem.what();
    return std::nullopt;
  }
}

std::optional<std::vector<Member>> WitnessTieBreak::ask(const HalfClaim& claim) {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::vector<Member>> named;
  // A number that nobody else has: those who claim for other nodes or jobs are not our successors.
  membership::NodeId number = 0;
  DASO_ASSERT(::getrandom(&number, sizeof number, 0) == sizeof number);
  Switchboard switchboard(
      {.self = {.node = number / 2},
       .key = options_.key,
       .nodes = {{kWitness, options_.witness}},
       .limits = {.handshake = options_.limit}},
      {.on_message =
           [&](const Member&, std::span<const std::byte> message) {
             const std::optional<HalfClaim> first = claim_in(message);
             if (!first || first->view != claim.view) return;
             const std::lock_guard lock(mutex);
             named = first->half;
             changed.notify_all();
           },
       .on_greeting = [&](const Member&,
                          const Greeting&) { switchboard.send(kWitness, bytes_of(claim)); }});
  {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, options_.limit, [&] { return named.has_value(); });
  }
  switchboard.abort();  // a witness does not mind
  const std::string problem = switchboard.trouble(kWitness);
  trouble_ = named             ? ""
             : problem.empty() ? "the witness does not answer"
                               : "the witness at " + problem;
  return named;
}

}  // namespace daso
