// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daso/base/disk.h"
#include "daso/base/seconds.h"
#include "daso/membership/view.h"

// Who goes on when the members of a view have fallen into two halves that do not hear each other
// (docs/membership.md): for each view number one half is named, the first that asked, for good.
// That is what keeps two halves from both going on, so no answer is better than a doubtful one.
namespace daso {

class TieBreak {
 public:
  virtual ~TieBreak() = default;

  // The half that has first claimed to decide about what follows this view, ours or another; none:
  // nobody says, ask again later. Waits for a limit at most, and does not throw. For one thread at
  // a time.
  virtual std::optional<std::vector<membership::Member>> claim(
      const membership::View& view, const std::vector<membership::Member>& half) = 0;

  // Why the last claim had no answer, for people; empty: it had one.
  const std::string& trouble() const { return trouble_; }

 protected:
  std::string trouble_;
};

// A file for each view that fell into halves, in a folder that all nodes see. It appears with all
// that it says, and is never written again.
//
// That all see the folder is not taken for granted: each launcher leaves a file with its name there
// when it begins, and a half is named only where those of all members of the view are found.
class FileTieBreak : public TieBreak {
 public:
  static constexpr Seconds kLimit{5};  // a shared disk may be slow, or gone

  // Announces this launcher's first life.
  FileTieBreak(std::filesystem::path folder, const membership::Member& self,
               Seconds limit = kLimit);

  std::optional<std::vector<membership::Member>> claim(
      const membership::View& view, const std::vector<membership::Member>& half) override;

 private:
  const std::filesystem::path folder_;
  const Seconds limit_;
  Disk disk_;
};

// What tells a view from all others, of any job: its members' launchers were started at some time.
std::string name_of(const membership::View& view);

// "0.1,2.3": members in ascending order, at least one.
std::string text_of_half(const std::vector<membership::Member>& half);
std::optional<std::vector<membership::Member>> parse_half(std::string_view text);

}  // namespace daso
