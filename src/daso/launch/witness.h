// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/comm/network.h"
#include "daso/launch/switchboard.h"
#include "daso/launch/tie_break.h"

// A tie-break for nodes that share no disk: somebody on another machine, whom both halves can ask.
namespace daso {

// A claim, and the answer to it: the same with the half that was first. As one line of text it
// travels, and is kept.
struct HalfClaim {
  std::string view;  // its name, see name_of() in tie_break.h; kMostViewName letters at most
  std::vector<membership::Member> half;
};
inline constexpr std::size_t kMostViewName = 64;

std::string text(const HalfClaim& claim);  // "7-00c0ffee00c0ffee 0.1,2.3"
std::optional<HalfClaim> parse_claim(std::string_view line);

// The first claims to each view, in memory and, where a file is given, there before
// anybody is told. Throws ConfigError for a file that is another witness's or not of this kind.
class Claims {
 public:
  explicit Claims(std::filesystem::path file);  // empty: in memory alone

  // None: it cannot be kept, so nobody is named.
  std::optional<HalfClaim> first(const HalfClaim& claim);

 private:
  void load();
  bool keep(const HalfClaim& claim);

  const std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t kept_bytes_ = 0;
  std::map<std::string, HalfClaim> claims_;  // by view
};

// Answers claims of whoever knows the key, on a thread of its own, as long as it lives.
class Witness {
 public:
  struct Options {
    FileDescriptor listening;
    std::string key;
    std::filesystem::path file;  // empty: a witness that is started again has forgotten all
  };
  explicit Witness(Options options);

  const Address& address() const { return address_; }

 private:
  const Address address_;
  Claims claims_;  // of the switchboard's thread
  Switchboard switchboard_;
};

class WitnessTieBreak : public TieBreak {
 public:
  struct Options {
    Address witness;  // numeric
    std::string key;
    Seconds limit{1};
  };
  // Throws ConfigError.
  explicit WitnessTieBreak(Options options);

  std::optional<std::vector<membership::Member>> claim(
      const membership::View& view, const std::vector<membership::Member>& half) override;

 private:
  std::optional<std::vector<membership::Member>> ask(const HalfClaim& claim);

  const Options options_;
};

}  // namespace daso
