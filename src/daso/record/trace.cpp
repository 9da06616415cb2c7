// SPDX-License-Identifier: Apache-2.0
#include "daso/record/trace.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/comm/gather_text.h"

namespace daso {
namespace {

using nlohmann::ordered_json;

// What a viewer shows in one line.
struct TraceRow {
  const char* name;
  bool overlaps;  // its events may overlap, so each has a name of its own in the file
};
// Of the first tracks, in their order; all others are waits and stand in one row.
constexpr std::array kRows = {TraceRow{"training", false},
                              TraceRow{"waiting", false},
                              TraceRow{"data", false},
                              TraceRow{"evaluation", false},
                              TraceRow{"gradients", true},
                              TraceRow{"exchange thread", false},
                              TraceRow{"exchanges, start to merge", true},
                              TraceRow{"checkpoints", true},
                              TraceRow{"device", true}};

std::size_t row_of(Track track) {
  return static_cast<std::size_t>(cause_of(track) ? Track::kWaiting : track);
}

double seconds_of(Clock::time_point time) { return Seconds(time.time_since_epoch()).count(); }

constexpr int kQuestions = 12;

ClockOffset ask(Communicator& ranks, int rank, Seconds limit) {
  ClockOffset best;
  for (int i = 0; i < kQuestions; ++i) {
    const double asked = seconds_of(Clock::now());
    ranks.send(at::zeros({1}, at::kDouble), rank).wait(limit);
    const at::Tensor answer = ranks.receive(at::zeros({1}, at::kDouble), rank).wait(limit);
    const double answered = seconds_of(Clock::now());
    const double error = (answered - asked) / 2;
    if (i > 0 && error >= best.error) continue;
    best = {.seconds = answer.item<double>() - (asked + answered) / 2, .error = error};
  }
  return best;
}

void answer(Communicator& ranks, Seconds limit) {
  for (int i = 0; i < kQuestions; ++i) {
    ranks.receive(at::zeros({1}, at::kDouble), 0).wait(limit);
    ranks.send(at::full({1}, seconds_of(Clock::now()), at::kDouble), 0).wait(limit);
  }
}

// Ranks stand node by node, whatever launcher has counted them, and viewers sort by several things:
// by the number of a process, and by its name as text.
std::size_t place_of(int rank, const Topology& topology) {
  auto place = static_cast<std::size_t>(topology.local_rank_of(rank));
  for (int node = 0; node < topology.node_of(rank); ++node) place += topology.ranks_of(node).size();
  return place;
}
std::string process_name(int rank, const World& world) {
  const Topology& topology = world.topology();
  const auto digits = [](int numbers) { return fmt::formatted_size("{}", numbers - 1); };
  return fmt::format("node {:0{}} rank {:0{}} on {}", topology.node_of(rank),
                     digits(topology.nodes()), rank, digits(world.size()), world.host_of(rank));
}
// Perfetto takes a thread that has the process's number for its main one, and number 0 too.
std::int64_t thread_of(Track track) {
  constexpr std::int64_t kAboveAllProcesses = 1000000;
  return kAboveAllProcesses + static_cast<std::int64_t>(row_of(track));
}

// Events of one rank as text: JSON objects with commas between them.
class Writer {
 public:
  explicit Writer(const World& world)
      : rank_(world.rank()), ranks_(world.size()), place_(place_of(rank_, world.topology())) {
    meta("process_name", Track::kTraining, "name", process_name(rank_, world));
    meta("process_sort_index", Track::kTraining, "sort_index", place_);
    for (std::size_t row = 0; row < kRows.size(); ++row) {
      const auto track = static_cast<Track>(row);
      // A row that is pinned or found by a search stands without its process.
      meta("thread_name", track, "name", fmt::format("rank {} {}", rank_, kRows[row].name));
      meta("thread_sort_index", track, "sort_index", row);
    }
  }

  void slice(const Event& event, double begin, double end) {
    const TraceRow& row = kRows[row_of(event.track)];
    ordered_json one = event_at("X", name_of(event), event.track, begin);
    one["cat"] = row.name;
    one["args"] = {{"number", event.number}};
    if (!row.overlaps) {
      one["dur"] = end - begin;
      put(one);
      return;
    }
    one["ph"] = "b";
    one["id2"] = {{"local", fmt::format("{}", ++asynchronous_)}};
    put(one);
    one["ph"] = "e";
    one["ts"] = end;
    put(one);
  }

  // An arrow from the beginning on one rank to the end on another.
  void arrows(const Event& event, double begin, double end) {
    for (const int peer : *event.talked_to) {
      if (peer == rank_) continue;
      arrow("s", event, begin, number_of(event, rank_, peer));
      arrow("f", event, end, number_of(event, peer, rank_));
    }
  }

  void mark(const std::string& text, double at) {
    ordered_json one = event_at("i", text, Track::kTraining, at);
    one["s"] = "p";  // as high as the process
    put(one);
  }

  std::string text() && { return std::move(text_); }

 private:
  static std::string name_of(const Event& event) {
    // Viewers give every name among events that overlap a row of its own, and what repeats in every
    // step is easier to read without its number.
    const bool numbered = std::string_view(event.name) == "step" || event.track == Track::kExchange;
    return numbered ? fmt::format("{} {}", event.name, event.number) : std::string(event.name);
  }
  // Of an arrow: both of its ranks find the same, and no other arrow has it.
  std::int64_t number_of(const Event& event, int from, int to) const {
    const bool back = std::string_view(event.name) == "send back";
    return ((2 * event.number + (back ? 1 : 0)) * ranks_ + from) * ranks_ + to;
  }
  ordered_json event_at(const char* kind, const std::string& name, Track track, double at) const {
    return {
        {"ph", kind}, {"name", name}, {"pid", place_ + 1}, {"tid", thread_of(track)}, {"ts", at}};
  }
  template <typename Value>
  void meta(const char* what, Track track, const char* field, const Value& value) {
    ordered_json one = event_at("M", what, track, 0);
    one["args"] = {{field, value}};
    put(one);
  }
  void arrow(const char* end, const Event& event, double at, std::int64_t number) {
    ordered_json one = event_at(end, event.name, event.track, at);
    one["cat"] = "between nodes";
    one["id"] = number;
    if (*end == 'f') one["bp"] = "e";  // at the slice that ends there, not at the next one
    put(one);
  }
  void put(const ordered_json& one) {
    if (!text_.empty()) text_ += ",\n";
    text_ += one.dump();
  }

  const int rank_;
  const int ranks_;
  const std::size_t place_;
  std::int64_t asynchronous_ = 0;
  std::string text_;
};

}  // namespace

std::vector<ClockOffset> clock_offsets(World& world) {
  Communicator& ranks = world.everyone();
  const at::Tensor all = at::zeros({world.size(), 2}, at::kDouble);
  if (world.rank() != 0) answer(ranks, world.limit());
  for (int rank = 1; rank < world.size() && world.rank() == 0; ++rank) {
    const ClockOffset offset = ask(ranks, rank, world.limit());
    all[rank][0] = offset.seconds;
    all[rank][1] = offset.error;
  }
  ranks.broadcast(all, 0).wait(world.limit());
  std::vector<ClockOffset> offsets;
  offsets.reserve(static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets.push_back({all[rank][0].item<double>(), all[rank][1].item<double>()});
  }
  return offsets;
}

Trace::Trace(World& world)
    : world_(world), begin_(seconds_of(Clock::now())), first_(clock_offsets(world)) {
  const at::Tensor origin = at::full({1}, begin_, at::kDouble);
  origin_ = world.everyone().broadcast(origin, 0).wait(world.limit()).item<double>();
}

double Trace::moment(Clock::time_point time) const {
  const auto own = static_cast<std::size_t>(world_.rank());
  const double now = seconds_of(time);
  const double passed = end_ > begin_ ? (now - begin_) / (end_ - begin_) : 0;
  const double offset = first_[own].seconds + passed * (last_[own].seconds - first_[own].seconds);
  return 1e6 * (now - offset - origin_);
}

void Trace::write(const std::filesystem::path& file, const std::vector<Late>& late) {
  end_ = seconds_of(Clock::now());
  last_ = clock_offsets(world_);
  Writer writer(world_);
  for (const Event& event : world_.timeline().events()) {
    const double begin = moment(event.begin);
    const double end = moment(event.end);
    writer.slice(event, begin, end);
    // Inside the slice, or viewers hang the arrow on a neighbour.
    const double inside = (end - begin) / 1000;
    if (event.talked_to != nullptr) writer.arrows(event, begin + inside, end - inside);
    if (std::string_view(event.name) != "step") continue;
    for (const Late& one : late) {
      if (one.rank != world_.rank() || one.step != event.number) continue;
      writer.mark(fmt::format("late by {:.0f} ms", 1e3 * one.seconds), end);
    }
  }
  const auto parts =
      gather_text_on_first(world_.everyone(), std::move(writer).text(), world_.limit());
  if (world_.rank() != 0) return;
  double error = 0;
  for (std::size_t rank = 0; rank < last_.size(); ++rank) {
    error = std::max({error, first_[rank].error, last_[rank].error});
  }
  try {
    OutputFile stream(file);
    stream.write(fmt::format(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"clock_error_microseconds\":{:g}}},\n"
        "\"traceEvents\":[\n",
        1e6 * error));
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (rank > 0) stream.write(",\n");
      stream.write(parts[rank]);
    }
    stream.write("\n]}\n");
    stream.publish();
  } catch (const Error& failure) {
    // A run that has trained well does not fail by this. Not by fmt, which throws: standard error
    // may lead to a file on the same full disk.
    std::fprintf(stderr, "daso: warning: %s\n", failure.what());
  }
}

}  // namespace daso
