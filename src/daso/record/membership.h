// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daso/record/line_file.h"
#include "daso/strategy/strategy.h"

// membership.jsonl: which nodes belonged to a run when, and which exchanges counted. Only a run
// that outlives its nodes (docs/membership.md) has one. Its fields are in docs/measuring.md.
namespace daso {

// A view as its rank 0 enters it. Nodes have the numbers that they were started with.
struct ViewRecord {
  std::int64_t number = 0;
  std::int64_t first_exchange = 0;
  std::vector<int> nodes = {};
  std::vector<int> lost = {};     // nodes of the view recorded before that are not, or not any
                                  // more, what they were
  std::vector<int> joined = {};   // nodes that take the run from a donor
  std::optional<int> donor = {};  // none: nobody needed anything
  int epoch = 0;                  // these three: the step that it goes on with
  std::int64_t batch = 0;         //
  std::int64_t step = 0;          //
  double time = 0;                // seconds since 1970
};

// "view 3: 2 of 3 nodes (node 2 lost)"
std::string text_of(const ViewRecord& view, std::size_t nodes);

// The views of the last job in a file that many may have written, one after the other; lines that
// are no views, and halves of lines, are passed over. None where there is no file.
std::vector<ViewRecord> read_views(const std::filesystem::path& file);
// So many nodes have belonged to one of them.
std::size_t nodes_in(const std::vector<ViewRecord>& views);

// What rank 0 of a view writes. When rank 0 is lost, the next one goes on with the same file.
class Membership {
 public:
  enum class Job { kBegins, kGoesOn };

  // Enters the view, if it is another one than the file's last. Finds out who is lost; `joined` is
  // what the launchers say. Throws ConfigError if the file cannot be written.
  Membership(const std::filesystem::path& folder, Job job, ViewRecord view);

  // What became of exchanges in this view. False: the disk does not take it.
  bool add(const StrategyEvents& events);

  const std::vector<ViewRecord>& views() const { return views_; }  // of this job
  bool entered() const { return entered_; }  // false: only the examples were dealt anew

 private:
  std::vector<ViewRecord> views_;
  LineFile file_;
  bool entered_ = false;
};

}  // namespace daso
