// SPDX-License-Identifier: Apache-2.0
#include "daso/metrics/trace.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "daso/comm/gather_text.h"

namespace daso {
namespace {

using json = nlohmann::ordered_json;

struct Row {
  const char* name;
  bool overlaps;  // its events may overlap, so each has a name of its own in the file
};
constexpr std::array<Row, kTracks> kRows = {Row{"training", false},
                                            Row{"waiting", false},
                                            Row{"data", false},
                                            Row{"evaluation", false},
                                            Row{"gradients", true},
                                            Row{"exchange thread", false},
                                            Row{"exchanges, start to merge", true},
                                            Row{"checkpoints", true}};

double seconds_of(Clock::time_point time) { return Seconds(time.time_since_epoch()).count(); }

// Events of one rank as text: JSON objects with commas between them.
class Writer {
 public:
  Writer(int rank, const World& world) : rank_(rank) {
    const Topology& topology = world.topology();
    meta("process_name", 0,
         fmt::format("node {} rank {} on {}", topology.node_of(rank), rank, world.host_of(rank)));
    put({{"ph", "M"},
         {"name", "process_sort_index"},
         {"pid", rank},
         {"args", {{"sort_index", rank}}}});
    for (std::size_t track = 0; track < kTracks; ++track) {
      meta("thread_name", track, kRows[track].name);
    }
  }

  void slice(const Event& event, double begin, double end) {
    const auto track = static_cast<std::size_t>(event.track);
    json one = {{"name", name_of(event)},
                {"cat", kRows[track].name},
                {"pid", rank_},
                {"tid", track},
                {"ts", begin},
                {"args", {{"number", event.number}}}};
    if (!kRows[track].overlaps) {
      one["ph"] = "X";
      one["dur"] = end - begin;
      put(one);
      return;
    }
    one["ph"] = "b";
    one["id"] = fmt::format("{}.{}", rank_, ++asynchronous_);
    put(one);
    one["ph"] = "e";
    one["ts"] = end;
    put(one);
  }

  // An arrow from the beginning on one rank to the end on another; both ranks know its name.
  void arrows(const Event& event, double begin, double end) {
    for (const int peer : *event.talked_to) {
      if (peer == rank_) continue;
      arrow("s", event, begin, fmt::format("{} {} {}-{}", event.name, event.number, rank_, peer));
      arrow("f", event, end, fmt::format("{} {} {}-{}", event.name, event.number, peer, rank_));
    }
  }

  void mark(const std::string& text, double at) {
    put({{"ph", "i"}, {"s", "p"}, {"name", text}, {"pid", rank_}, {"tid", 0}, {"ts", at}});
  }

  std::string text() && { return std::move(text_); }

 private:
  static std::string name_of(const Event& event) {
    // What repeats in every step is easier to read without its number.
    const bool of_step = event.track <= Track::kData && std::string_view(event.name) != "step";
    return of_step ? std::string(event.name) : fmt::format("{} {}", event.name, event.number);
  }
  void meta(const char* what, std::size_t track, const std::string& name) {
    put({{"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", track}, {"args", {{"name", name}}}});
  }
  void arrow(const char* end, const Event& event, double at, const std::string& id) {
    json one = {{"ph", end}, {"name", event.name}, {"cat", "between nodes"},
                {"id", id},  {"pid", rank_},       {"tid", static_cast<int>(event.track)},
                {"ts", at}};
    if (*end == 'f') one["bp"] = "e";  // at the slice that ends there, not at the next one
    put(one);
  }
  void put(const json& one) {
    if (!text_.empty()) text_ += ",\n";
    text_ += one.dump();
  }

  const int rank_;
  std::int64_t asynchronous_ = 0;
  std::string text_;
};

}  // namespace

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

void Trace::write(const std::filesystem::path& file, const std::vector<Mark>& marks) {
  end_ = seconds_of(Clock::now());
  last_ = clock_offsets(world_);
  Writer writer(world_.rank(), world_);
  for (const Event& event : world_.timeline().events()) {
    const double begin = moment(event.begin);
    const double end = moment(event.end);
    writer.slice(event, begin, end);
    // Inside the slice, or viewers hang the arrow on a neighbour.
    const double inside = (end - begin) / 1000;
    if (event.talked_to != nullptr) writer.arrows(event, begin + inside, end - inside);
    if (std::string_view(event.name) != "step") continue;
    for (const Mark& mark : marks) {
      if (mark.rank == world_.rank() && mark.step == event.number) writer.mark(mark.text, end);
    }
  }
  const auto parts = gather_text(world_.everyone(), std::move(writer).text(), world_.limit());
  if (world_.rank() != 0) return;
  double error = 0;
  for (std::size_t rank = 0; rank < last_.size(); ++rank) {
    error = std::max({error, first_[rank].error, last_[rank].error});
  }
  std::ofstream stream(file);
  stream << R"({"displayTimeUnit":"ms","otherData":{"clock_error_microseconds":)" << 1e6 * error
         << "},\n\"traceEvents\":[\n";
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    stream << (rank == 0 ? "" : ",\n") << parts[rank];
  }
  stream << "\n]}\n";
  require(stream.flush().good(), "{} cannot be written", file.string());
}

}  // namespace daso
