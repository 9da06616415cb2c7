// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/lookout.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

using nlohmann::json;

constexpr Seconds kBetweenLooks{0.1};
constexpr Seconds kBetweenCounts{0.05};  // while the roll is being called
// Ringing takes one look, one roll call and a few calls on the store; more means it is stuck.
constexpr Seconds kRingLimit = Lookout::kRollCall + Seconds(2);

constexpr Seconds kForLaunchers{1};  // to say that the view has ended

constexpr const char* kAnswers = "answers";      // list: who answers the roll call, and its counts
constexpr const char* kAccounted = "accounted";  // how many have answered or are reported as gone
constexpr const char* kMissing = "missing";      // list: what came out
constexpr const char* kHeard = "heard";          // how many know what came out
constexpr const char* kFarewells = "farewells";  // list: who ended in good order
constexpr const char* kGone = "gone";            // list, of the whole job: what launchers saw
constexpr const char* kLaunchRanks = "launch_ranks";  // of a later generation's members

std::string generation_key(int generation) { return fmt::format("generation{}", generation); }

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

// A list is one value of the table with a line for each entry. Who reads it gets all of them at
// once: a key for each rank would take every rank as many requests as there are ranks.
void add_line(const Store& table, const char* list, const json& line) {
  table.append(list, dumped(line) + "\n");
}

std::vector<json> lines_of(const Store& table, const char* list) {
  std::vector<json> lines;
  for (const std::string& line : split(table.find(list).value_or(""), '\n')) {
    if (!line.empty()) lines.push_back(json::parse(line));
  }
  return lines;
}

// A rank may answer and then be seen to end.
void account_for(const Store& table, int launch_rank) {
  if (table.add(fmt::format("{}/{}", kAccounted, launch_rank), 1) == 1) table.add(kAccounted, 1);
}

bool has(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

Lookout::Lookout(const Store& root, int generation, Watch watch, std::shared_ptr<Alarm> alarm)
    : watch_(std::move(watch)),
      alarm_(std::move(alarm)),
      names_(watch_.names),
      root_(root.second_connection()),
      table_(root_.under(generation_key(generation))),
      thread_([this](const std::stop_token& stop) { keep_watch(stop); }) {}

Lookout::~Lookout() {
  thread_.request_stop();
  root_.abandon();  // its host may be what was lost, and would be waited for
}

Failure Lookout::ring(const std::string& reason) {
  const auto never = [] { return false; };
  if (watch_.launchers_decide) {
    alarm_->wait(never, Deadline(kForLaunchers));
    alarm_->raise({.text = reason});  // if they have not
    return *alarm_->raised();
  }
  {
    const std::lock_guard lock(mutex_);
    if (request_.empty()) request_ = dumped({{"roll", true}, {"text", reason}});
  }
  wake_.notify_all();
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

void Lookout::farewell() { add_line(table_, kFarewells, watch_.rank); }

void Lookout::keep_watch(const std::stop_token& stop) {
  bool first = true;
  while (!stop.stop_requested()) {
    try {
      if (std::exchange(first, false)) ring_if_reported();
      ring_if_orphaned();
      if (look()) return;
    } catch (const Error& error) {
      if (!stop.stop_requested()) alarm_->raise({.text = error.what()});
      return;
    } catch (const std::exception& error) {  // JSON's
      alarm_->raise({.text = fmt::format("the store at {} holds what no rank has written: {}",
                                         root_.address().text(), error.what())});
      return;
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, kBetweenLooks, [this] { return !request_.empty(); });
  }
}

// A member that ended while the others found each other was reported to the generation before.
void Lookout::ring_if_reported() {
  for (const json& report : lines_of(root_, kGone)) {
    if (!has(watch_.launch_ranks, report.at("rank").get<int>())) continue;
    account_for(table_, report.at("rank").get<int>());
    table_.set_once("alarm", dumped({{"roll", true}, {"text", report.at("how")}}));
  }
}

void Lookout::ring_if_orphaned() {
  const Parent& parent = watch_.parent;
  if (parent.pid == 0 || ::getppid() == parent.pid) return;
  if (!orphaned_) orphaned_ = Clock::now();
  if (since(*orphaned_) < parent.patience) return;
  const Failure failure{.text = fmt::format("{} has lost its launcher: {}, process {}, is gone",
                                            name_of(watch_.rank), parent.name, parent.pid),
                        .missing = {watch_.rank}};
  const std::lock_guard lock(mutex_);
  if (request_.empty()) request_ = to_text(failure);
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
  add_line(table_, kAnswers, {{"rank", watch_.rank}, {"begun", watch_.begun()}});
  account_for(table_, watch_.launch_ranks[static_cast<std::size_t>(watch_.rank)]);
  // A rank that the launcher reports as gone is counted with those that answered, so that nobody
  // waits for it.
  const Deadline deadline(kRollCall);
  while (!deadline.passed() && table_.add(kAccounted, 0) < size) {
    std::this_thread::sleep_for(kBetweenCounts);
  }
  Failure failure;
  for (const json& answer : lines_of(table_, kAnswers)) {
    failure.begun[answer.at("rank").get<int>()] =
        answer.at("begun").get<std::map<std::string, std::int64_t>>();
  }
  for (int rank = 0; rank < size; ++rank) {
    if (!failure.begun.contains(rank)) failure.missing.push_back(rank);
  }
  // One may answer between two that count.
  failure.missing =
      json::parse(table_.set_once(kMissing, json(failure.missing).dump())).get<std::vector<int>>();
  failure.text = failure.missing.empty() ? reason : join(verdicts(failure.missing), "; ");
  table_.add(kHeard, 1);
  // Those that are there have a moment to read the same, before the store goes with this rank.
  const auto present = static_cast<std::int64_t>(failure.begun.size());
  const Deadline moment(kRollCall);
  while (watch_.hosts_store && !moment.passed() && table_.add(kHeard, 0) < present) {
    std::this_thread::sleep_for(kBetweenCounts);
  }
  return failure;
}

std::vector<std::string> Lookout::verdicts(const std::vector<int>& missing) const {
  std::map<int, std::string> gone;  // by launch rank
  for (const json& report : lines_of(root_, kGone)) {
    gone[report.at("rank").get<int>()] = report.at("how").get<std::string>();
  }
  std::set<int> left;
  for (const json& rank : lines_of(table_, kFarewells)) left.insert(rank.get<int>());
  std::vector<std::string> texts;
  for (const int rank : missing) {
    const auto report = gone.find(watch_.launch_ranks[static_cast<std::size_t>(rank)]);
    if (report != gone.end()) {
      texts.push_back(fmt::format("{} {}", name_of(rank), report->second));
    } else if (left.contains(rank)) {
      texts.push_back(fmt::format("{} has left the world", name_of(rank)));
    } else {
      texts.push_back(
          fmt::format("{} did not answer the roll call within {} s: dead, stopped or unreachable",
                      name_of(rank), kRollCall.count()));
    }
  }
  return texts;
}

std::string Lookout::name_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<std::size_t>(rank);
  return number < names_.size() ? names_[number] : fmt::format("rank {}", rank);
}

void begin_generation(const Store& root, int generation, const std::vector<int>& launch_ranks) {
  root.under(generation_key(generation)).set(kLaunchRanks, json(launch_ranks).dump());
  root.set("generation", generation_key(generation));
}

std::set<int> reported_gone(const Store& root) {
  std::set<int> ranks;
  for (const json& report : lines_of(root, kGone)) ranks.insert(report.at("rank").get<int>());
  return ranks;
}

void report_gone(const Store& root, int launch_rank, const std::string& how) {
  add_line(root, kGone, {{"rank", launch_rank}, {"how", how}});
  const Store table = root.under(root.find("generation").value_or(generation_key(0)));
  const auto members = table.find(kLaunchRanks);  // none: all ranks of the job
  if (members && !has(json::parse(*members).get<std::vector<int>>(), launch_rank)) return;
  account_for(table, launch_rank);
  table.set_once("alarm", dumped({{"roll", true}, {"text", how}}));
}

}  // namespace daso
