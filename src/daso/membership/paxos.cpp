// SPDX-License-Identifier: Apache-2.0
#include "daso/membership/paxos.h"

#include <utility>

#include "daso/base/error.h"

namespace daso::membership {

bool Acceptor::promise(const Ballot& ballot) {
  if (ballot < promised_) return false;
  promised_ = ballot;
  return true;
}

bool Acceptor::accept(const Ballot& ballot, const View& view) {
  if (ballot < promised_) return false;
  promised_ = ballot;
  accepted_ = {ballot, view};
  return true;
}

void Proposer::begin(const Ballot& ballot) {
  stage_ = Stage::kGathering;
  ballot_ = ballot;
  voters_.clear();
  reports_.clear();
  bound_.reset();
}

void Proposer::promised(const Member& from, const Promise& promise) {
  if (stage_ != Stage::kGathering || promise.ballot != ballot_ || answered(from)) return;
  insert(voters_, from);
  reports_.push_back({from, promise.report});
  const auto& accepted = promise.accepted;
  if (accepted && (!bound_ || bound_->ballot < accepted->ballot)) bound_ = accepted;
}

void Proposer::accepted(const Member& from, const Ballot& ballot) {
  if (stage_ == Stage::kAccepting && ballot == ballot_) insert(voters_, from);
}

void Proposer::propose(View view) {
  DASO_ASSERT(stage_ == Stage::kGathering);
  stage_ = Stage::kAccepting;
  voters_.clear();
  view_ = std::move(view);
}

}  // namespace daso::membership
