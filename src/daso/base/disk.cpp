// SPDX-License-Identifier: Apache-2.0
#include "daso/base/disk.h"

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr Seconds kPatience{1};  // where the disk was given up

}  // namespace

void Disk::run(Seconds limit, const std::string& what, std::function<void()> act) {
  if (!calls_) calls_ = std::make_shared<Abandonable>("daso disk");
  const auto begun = Clock::now();
  auto outcome = Abandonable::Outcome::kLate;  // what came before has taken all the time
  if (limit > Seconds(0)) {
    outcome = calls_->run(std::move(act), Deadline(limit), what, given_up_.get_token(), kPatience);
  }
  if (outcome == Abandonable::Outcome::kDone) return;
  if (outcome == Abandonable::Outcome::kStuck) {
    throw Error(fmt::format("{} has not begun: the disk hangs, {} is still not done", what,
                            calls_->hanging()));
  }
  throw Error(fmt::format("{} is not done after {:.1f} s: the disk hangs or is too slow", what,
                          since(begun).count()));
}

}  // namespace daso
