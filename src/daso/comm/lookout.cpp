// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/lookout.h"

#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

using nlohmann::json;

constexpr Seconds kBetweenLooks{0.1};
constexpr Seconds kBetweenCounts{0.01};  // while the roll is being called
// Ringing takes one look, one roll call and a few calls on the store; more means it is stuck.
constexpr Seconds kRingLimit = Lookout::kRollCall + Seconds(2);

std::string generation_key(int generation) { return fmt::format("generation{}", generation); }
std::string gone_key(int launch_rank) { return fmt::format("gone/{}", launch_rank); }

// Names of files, which reasons hold, need not be UTF-8.
std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string to_text(const Failure& failure) {
  return dumped({{"roll", false},
                 {"config", failure.kind == Failure::Kind::kConfig},
                 {"text", failure.text},
                 {"missing", failure.missing}});
}

}  // namespace

Lookout::Lookout(const Store& root, int generation, Watch watch, std::shared_ptr<Alarm> alarm)
    : watch_(std::move(watch)),
      alarm_(std::move(alarm)),
      names_(watch_.names),
      root_(root.second_connection()),
      table_(root_.under(generation_key(generation))),
      thread_([this](const std::stop_token& stop) { keep_watch(stop); }) {}

Lookout::~Lookout() = default;  // the thread is asked to stop and joined

Failure Lookout::ring(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (request_.empty()) request_ = dumped({{"roll", true}, {"text", reason}});
  }
  wake_.notify_all();
  const auto never = [] { return false; };
  alarm_->wait(never, Deadline(kRingLimit));
  if (const auto failure = alarm_->raised()) return *failure;
  const Failure unanswered{
      .text = fmt::format("{}; the roll could not be called, since the store at {} "
                          "does not answer",
                          reason, root_.address().text())};
  alarm_->raise(unanswered);
  return *alarm_->raised();
}

Failure Lookout::spread(Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    if (request_.empty()) request_ = to_text(failure);
  }
  wake_.notify_all();
  alarm_->wait([] { return false; }, Deadline(kRingLimit));
  alarm_->raise(std::move(failure));  // in case the store did not answer
  return *alarm_->raised();
}

void Lookout::introduce(std::vector<std::string> names) {
  const std::lock_guard lock(mutex_);
  names_ = std::move(names);
}

void Lookout::farewell() { table_.set(key("left", watch_.rank), "yes"); }

void Lookout::keep_watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      if (look()) return;
    } catch (const Error& error) {
      alarm_->raise({.text = error.what()});
      return;
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, kBetweenLooks, [this] { return !request_.empty(); });
  }
}

bool Lookout::look() {
  std::string request;
  {
    const std::lock_guard lock(mutex_);
    request = request_;
  }
  // Whoever rings first decides what the alarm is about.
  const std::optional<std::string> text =
      request.empty() ? table_.find("alarm") : table_.set_once("alarm", request);
  if (!text) return false;
  const json alarm = json::parse(*text);
  if (alarm.at("roll").get<bool>()) {
    alarm_->raise(call_roll(alarm.at("text")));
  } else {
    const bool config = alarm.at("config");
    alarm_->raise({.kind = config ? Failure::Kind::kConfig : Failure::Kind::kPeer,
                   .text = alarm.at("text"),
                   .missing = alarm.at("missing")});
  }
  return true;
}

Failure Lookout::call_roll(const std::string& reason) {
  const int size = static_cast<int>(watch_.launch_ranks.size());
  table_.set(key("here", watch_.rank), json(watch_.begun()).dump());
  table_.add("here", 1);
  // A rank that the launcher reports as gone is counted with those that answered, so that nobody
  // waits for it.
  const Deadline deadline(kRollCall);
  while (!deadline.passed()) {
    if (table_.add("here", 0) + table_.add("gone", 0) >= size) break;
    std::this_thread::sleep_for(kBetweenCounts);
  }
  Failure failure;
  std::vector<std::string> verdicts;
  for (int rank = 0; rank < size; ++rank) {
    if (const auto answer = table_.find(key("here", rank))) {
      failure.begun[rank] = json::parse(*answer).get<std::map<std::string, std::int64_t>>();
    } else {
      failure.missing.push_back(rank);
      verdicts.push_back(verdict(rank));
    }
  }
  failure.text = verdicts.empty() ? reason : join(verdicts, "; ");
  return failure;
}

std::string Lookout::verdict(int rank) const {
  const auto number = static_cast<std::size_t>(rank);
  if (const auto how = root_.find(gone_key(watch_.launch_ranks[number]))) {
    return fmt::format("{} {}", name_of(rank), *how);
  }
  if (table_.find(key("left", rank))) return fmt::format("{} has left the world", name_of(rank));
  return fmt::format("{} did not answer the roll call within {} s: dead, stopped or unreachable",
                     name_of(rank), kRollCall.count());
}

std::string Lookout::name_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<std::size_t>(rank);
  return number < names_.size() ? names_[number] : fmt::format("rank {}", rank);
}

std::string Lookout::key(const char* what, int rank) const {
  return fmt::format("{}/{}", what, rank);
}

void report_gone(const Store& root, int launch_rank, const std::string& how) {
  root.set(gone_key(launch_rank), how);
  const Store table = root.under(root.find("generation").value_or(generation_key(0)));
  table.add("gone", 1);
  table.set_once("alarm", dumped({{"roll", true}, {"text", how}}));
}

}  // namespace daso
