// SPDX-License-Identifier: Apache-2.0
#include "daso/membership/report.h"

#include <algorithm>

namespace daso::membership {
namespace {

std::vector<Settled> settle(std::span<const ReportOf> reports, ExchangeNumber begin,
                            ExchangeNumber end) {
  std::vector<Settled> settled;
  for (ExchangeNumber exchange = begin; exchange < end; ++exchange) {
    settled.push_back({exchange, std::ranges::all_of(reports, [&](const ReportOf& one) {
                         return one.report.progress.holds(exchange);
                       })});
  }
  return settled;
}

std::optional<BlockingStep> furthest_step(std::span<const ReportOf> reports, const View& next) {
  std::optional<BlockingStep> furthest;
  for (const auto& [member, report] : reports) {
    if (!report.step || !contains(next.members, member)) continue;
    if (furthest && (*report.step < furthest->step ||
                     (*report.step == furthest->step && member.node > furthest->node))) {
      continue;
    }
    furthest = {*report.step, member.node};
  }
  return furthest;
}

std::vector<ReportOf> living(std::span<const ReportOf> reports) {
  std::vector<Member> dead;
  for (const auto& [member, report] : reports) {
    if (contains(dead, member)) continue;
    for (const Member& other : report.dead) {
      if (other != member) insert(dead, other);
    }
  }
  std::vector<ReportOf> rest(reports.begin(), reports.end());
  std::erase_if(rest, [&](const ReportOf& one) { return contains(dead, one.member); });
  return rest;
}

// Of several incarnations of a node that want to join the last one counts: it replaced the others.
void admit(View& next, std::span<const ReportOf> reports, const std::vector<Member>& heard,
           std::size_t seats) {
  for (const Member& candidate : heard) {
    const bool by_all = std::ranges::all_of(reports, [&](const ReportOf& one) {
      return one.report.leaving || contains(one.report.candidates, candidate);
    });
    const bool replaced = std::ranges::any_of(heard, [&](const Member& other) {
      return other.node == candidate.node && other.incarnation > candidate.incarnation;
    });
    if (by_all && !replaced && !member_of(next.members, candidate.node)) {
      insert(next.joined, candidate);
    }
  }
  // Should they all fail at once, those who were there before must still be a majority. One may
  // come in any case.
  const std::size_t minority = std::max<std::size_t>(next.members.size(), 2) - 1;
  const std::size_t most = std::min(minority, seats - std::min(seats, next.members.size()));
  if (next.joined.size() > most) next.joined.resize(most);
  for (const Member& joiner : next.joined) insert(next.members, joiner);
}

}  // namespace

bool Progress::holds(ExchangeNumber exchange) const {
  return exchange < committed || std::ranges::binary_search(held, exchange);
}

std::optional<View> next_view(const View& before, std::span<const ReportOf> all,
                              std::size_t seats) {
  const std::vector<ReportOf> reports = living(all);
  if (reports.empty()) return std::nullopt;
  View next{.number = before.number + 1, .first_exchange = before.first_exchange};
  ExchangeNumber unsettled = reports.front().report.progress.committed;
  const ReportOf* stays = nullptr;
  for (const ReportOf& one : reports) {
    const Progress& progress = one.report.progress;
    if (progress.committed < before.first_exchange) return std::nullopt;
    next.first_exchange = std::max(next.first_exchange, progress.next);
    unsettled = std::min(unsettled, progress.committed);
    if (one.report.leaving) continue;
    insert(next.members, one.member);
    stays = &one;
  }
  // Who is ahead has committed what the last one has started.
  if (next.first_exchange - unsettled > 2 * kMostInFlight) return std::nullopt;
  next.settled = settle(reports, unsettled, next.first_exchange);
  if (stays != nullptr) admit(next, reports, stays->report.candidates, seats);
  next.blocking = furthest_step(reports, next);
  return next;
}

}  // namespace daso::membership
