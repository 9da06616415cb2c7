// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daso/base/file_descriptor.h"
#include "daso/comm/network.h"
#include "daso/comm/store.h"
#include "daso/launch/cluster.h"
#include "daso/launch/exit_rule.h"
#include "daso/launch/launch.h"

namespace daso {

// The launcher's side of the job's store: the first launcher hosts it, the others connect to it.
class JobStore {
 public:
  // Listens or connects. Starts no thread where it listens, so that ranks can be forked before
  // open(): who connects meanwhile waits. On a cluster the store is at home on its first node,
  // which must outlive us.
  JobStore(const LaunchOptions& options, const ClusterNode* first);

  const Address& address() const { return address_; }  // for the ranks

  // Serves from now on, as the store of the job with this token.
  void open(const std::string& job_token);

  // The news reaches the other ranks through the store. Says nothing where the store is gone: they
  // then know already.
  void report(const RankEnd& end);

  // A view has begun: what ranks have left here in earlier ones goes, but for the one before, which
  // some of them may still be about to leave.
  void begin_view(std::int64_t number);

  // In a job that keeps survivors, while ranks of this launcher run: says so to the host's
  // launcher, whose own ranks may all be lost. Returns when to call again.
  Seconds beat();

  // The ranks of this launcher have ended. The host's launcher then waits until all others have
  // said so, because their ranks still need it. `pause` waits a moment; true means: give up.
  // Returns the node that has said nothing for as long as the limit, if any.
  std::optional<int> leave(Seconds limit, const std::function<bool(Seconds)>& pause);

 private:
  int nodes_;
  int node_;  // whose launcher this is; 0 where it is the only one
  bool several_;
  bool for_members_;  // who goes on when nodes are lost uses no backend of LibTorch
  const ClusterNode* first_;  // none: on this machine
  FileDescriptor listening_;
  Address address_;
  std::optional<Store> store_;
  std::int64_t view_ = 0;      // the last that has begun
  Deadline beat_{Seconds(0)};  // is due then
};

}  // namespace daso
