// SPDX-License-Identifier: Apache-2.0
#include "membership/history.h"

#include <fmt/format.h>

#include <algorithm>

namespace daso::membership {
namespace {

template <typename... Args>
void must(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) throw Violation(fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace

History::History(const View& first) : views_{first}, begins_{0}, votes_(1) {
  votes_.front().first = first.first_exchange;
}

void History::append(const Entry& entry) {
  if (!entries_.empty()) {
    const Entry& last = entries_.back();
    must(entry.view >= last.view && entry.exchange > last.exchange,
         "exchange {} of view {} is committed after {} of view {}", entry.exchange, entry.view,
         last.exchange, last.view);
  }
  for (const Member& member : latest().members) must_hold(entry, member);
  entries_.push_back(entry);
}

void History::must_hold(const Entry& entry, const Member& member) const {
  const Votes& votes = votes_.at(entry.view - 1);
  const auto place = static_cast<std::size_t>(entry.exchange - votes.first);
  const unsigned voters = place < votes.voters.size() ? votes.voters[place] : 0;
  must((voters >> member.node & 1) == 1, "exchange {} of view {} is committed, but {} lacks it",
       entry.exchange, entry.view, text(member));
}

void History::decided(const View& view) {
  must(view.number >= 1 && view.number <= views_.size() + 1, "{} comes after {}", text(view),
       text(latest()));
  if (view.number <= views_.size()) {
    must(views_[view.number - 1] == view, "two values: {} and {}", text(view),
         text(views_[view.number - 1]));
    return;
  }
  const View before = latest();
  must(view.first_exchange >= before.first_exchange, "numbers go back: {} after {}", text(view),
       text(before));
  for (const Member& member : view.members) {
    must(contains(before.members, member) != contains(view.joined, member),
         "{} of {} comes from nowhere", text(member), text(view));
  }
  settle(view);
  begins_.push_back(entries_.size());
  views_.push_back(view);
  votes_.push_back({.first = view.first_exchange});
}

// Entries of the view before that are in doubt must be the first of those that are committed now.
void History::settle(const View& next) {
  const ViewNumber before = next.number - 1;
  const ExchangeNumber doubtful =
      next.settled.empty() ? next.first_exchange : next.settled.front().exchange;
  auto entry = std::ranges::find_if(
      entries_, [&](const Entry& one) { return one.view == before && one.exchange >= doubtful; });
  std::vector<Entry> missing;
  for (const Settled& one : next.settled) {
    for (const Member& member : next.members) {
      if (one.committed && contains(latest().members, member)) {
        must_hold({before, one.exchange}, member);
      }
    }
    const bool merged = entry != entries_.end() && entry->exchange == one.exchange;
    must(!merged || one.committed, "{} of view {} was merged, but {}", one.exchange, before,
         text(next));
    if (merged) {
      ++entry;
    } else if (one.committed) {
      must(entry == entries_.end(), "{} of view {} was left out, and {}", one.exchange, before,
           text(next));
      missing.push_back({before, one.exchange});
    }
  }
  must(entry == entries_.end(), "view {} has merged more than {} knows", before, text(next));
  // The votes of nodes that are lost are not asked for.
  entries_.insert(entries_.end(), missing.begin(), missing.end());
}

void History::prepared(const Entry& entry, unsigned voter) {
  Votes& votes = votes_.at(entry.view - 1);
  const auto place = static_cast<std::size_t>(entry.exchange - votes.first);
  if (votes.voters.size() <= place) votes.voters.resize(place + 1);
  votes.voters[place] |= 1U << voter;
}

void History::merged(std::size_t anchor, const Entry& entry) {
  must(anchor <= entries_.size(), "an anchor has {} exchanges of {}", anchor, entries_.size());
  if (anchor < entries_.size()) {
    must(entries_[anchor] == entry,
         "anchors differ: exchange {} of view {} is merged where others have {} of view {}",
         entry.exchange, entry.view, entries_[anchor].exchange, entries_[anchor].view);
    return;
  }
  must(entry.view == latest().number, "exchange {} of view {} is committed although there is {}",
       entry.exchange, entry.view, text(latest()));
  append(entry);
}

}  // namespace daso::membership
