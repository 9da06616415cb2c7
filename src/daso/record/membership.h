// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daso/comm/world_options.h"
#include "daso/record/line_file.h"
#include "daso/strategy/strategy.h"

// membership.jsonl: which nodes belonged to a run when, and which exchanges counted. Only a run
// that outlives its nodes (docs/membership.md) has one. Its fields are in docs/measuring.md.
namespace daso {

// Where a node was when it left the view that it was in before.
struct LeftAt {
  int epoch = 0;                        // these two: the step that it went on with
  std::int64_t batch = 0;               //
  bool equal = false;                   // all nodes were to have the same there
  std::optional<std::int64_t> put_off;  // the exchange that was due and did not begin any more
  bool operator==(const LeftAt&) const = default;
};

// A view as its rank 0 enters it. Nodes and ranks have the numbers that they were started with.
struct ViewRecord {
  std::int64_t number = 0;
  std::int64_t first_exchange = 0;
  std::vector<int> nodes = {};
  std::vector<std::vector<int>> ranks = {};        // of each node
  std::vector<std::optional<LeftAt>> places = {};  // of each node; none: it had nothing of the run
  std::vector<int> lost = {};     // nodes of the view recorded before that are not, or not any
                                  // more, what they were
  std::vector<int> left = {};     // the same, but they have left on purpose
  std::vector<int> joined = {};   // nodes that take the run from a donor
  std::optional<int> donor = {};  // none: nobody needed anything
  std::map<int, std::int64_t> copied = {};  // of those who joined, who had a copy of the donor's
                                            // ahead, and the exchange at whose start it was made
  int epoch = 0;                            // these three: the step that it goes on with
  std::int64_t batch = 0;                   //
  std::int64_t step = 0;                    //
  std::optional<double> stall = {};  // seconds from the last step before it; none: nobody had one
  double time = 0;                   // seconds since 1970
};

// A line of the file, and back; none for a text that is something else.
std::string line_of(const ViewRecord& view);
std::optional<ViewRecord> view_in_line(const std::string& line);

// "view 3: 2 of 3 nodes (node 2 lost)"
std::string text_of(const ViewRecord& view, std::size_t nodes);

// The views of the last job in a file that many may have written, one after the other; lines that
// are no views, and halves of lines, are passed over. None where there is no file.
std::vector<ViewRecord> read_views(const std::filesystem::path& file);
// The same for what launchers have decided, in the order of numbers.
std::vector<DecidedView> read_decided(const std::filesystem::path& file);
// Where that job stopped before its end, if it did.
struct StoppedAt {
  int epoch = 0;
  std::int64_t batch = 0;
};
std::optional<StoppedAt> read_stop(const std::filesystem::path& file);
// So many nodes have belonged to one of them.
std::size_t nodes_in(const std::vector<ViewRecord>& views);

// What rank 0 of a view writes. When rank 0 is lost, the next one goes on with the same file; of
// the views that it could not write down any more others know.
class Membership {
 public:
  enum class Job { kBegins, kGoesOn };

  // Enters the last of the views, if it is another one than the file's last, and those before it
  // that the file has not; they ascend. Finds out who is lost; `joined` and `left` are what the
  // launchers say. `decided` are all views that they have decided on, also those that nobody has
  // entered. Throws ConfigError if the file cannot be written.
  Membership(const std::filesystem::path& folder, Job job, std::vector<ViewRecord> views,
             const std::vector<DecidedView>& decided = {});

  // What became of exchanges in this view. False: the disk does not take it.
  bool add(const StrategyEvents& events);

  // The run has stopped before its end, at this place. False: as above.
  bool stopped(int epoch, std::int64_t batch);

  const std::vector<ViewRecord>& views() const { return views_; }  // of this job
  bool entered() const { return entered_; }  // false: only the examples were dealt anew

 private:
  void enter(ViewRecord view);

  std::vector<ViewRecord> views_;
  LineFile file_;
  bool entered_ = false;
};

}  // namespace daso
