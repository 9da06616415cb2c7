// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train_output.h"

#include <fmt/ranges.h>

#include <utility>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/base/standard_streams.h"
#include "daso/base/text.h"
#include "daso/base/toml.h"
#include "daso/comm/gather_text.h"
#include "daso/run/settings_table.h"
#include "daso/tensor/bf16.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSettingsWidth = 100;  // columns

void print_start(const World& world, const Course& course, const Values& resolved,
                 const std::string& note) {
  const Settings& o = course.run().settings();
  fmt::print("{} on {} with {}: {} ranks on {} nodes, {} epochs\n", o.model, o.data, o.strategy,
             world.size(), world.topology().nodes(), o.epochs);
  std::string line;
  for (const auto& [flag, value] : resolved) {
    const std::string entry = fmt::format("  {} {}", flag, value);
    if (line.size() + entry.size() > kSettingsWidth) fmt::print("{}\n", std::exchange(line, ""));
    line += entry;
  }
  fmt::print("{}\n", line);
  if (!course.begun_with().empty()) fmt::print("{}\n", course.begun_with());
  if (!note.empty()) fmt::print("{}\n", note);
  fmt::print("output in {}\n", o.out.string());
  if (const auto place = course.resumed()) {
    fmt::print("going on with step {}, epoch {}\n", place->step, place->epoch + 1);
  } else if (o.resume) {
    fmt::print("there is no complete checkpoint in {} yet: this run begins anew\n", o.out.string());
  }
  if (course.run().finished()) {
    fmt::print(
        "this run is finished: all {} are done\n",
        o.max_steps ? fmt::format("{} steps", *o.max_steps) : fmt::format("{} epochs", o.epochs));
  }
  flush_output();
}

std::string result_of(const Summary& summary) {
  if (!summary.evaluated && summary.epochs == 0) return "not evaluated, no epoch is over";
  if (!summary.evaluated)
    return fmt::format("training loss {:.4f}, not evaluated", summary.train_loss);
  const Score score{.loss = summary.test_loss, .accuracy = summary.test_accuracy};
  if (summary.perplexity) return fmt::format("perplexity {:.4g}", *summary.perplexity);
  if (!has_accuracy(score)) return fmt::format("test loss {:.4f}", score.loss);
  const std::string top5 = summary.top5 ? fmt::format(", top-5 {:.4f}", *summary.top5) : "";
  return fmt::format("accuracy {:.4f}{}", score.accuracy, top5);
}

// Who was there when, where that has changed.
void print_views(const Summary& summary) {
  constexpr std::size_t kMostLines = 8;
  const std::vector<ViewRecord>& views = summary.views;
  if (views.size() < 2) return;
  const auto unseen = summary.unseen_examples.value_or(0);
  fmt::print("{} views{}\n", views.size(),
             unseen > 0
                 ? fmt::format("; {} examples were not seen since their node was gone", unseen)
                 : "");
  const std::size_t hidden = views.size() > kMostLines ? views.size() - kMostLines : 0;
  if (hidden > 0) fmt::print("  {} more are in membership.jsonl\n", hidden);
  for (std::size_t i = hidden; i < views.size(); ++i) {
    fmt::print("  {}, from step {}\n", text_of(views[i], nodes_in(views)), views[i].step);
  }
}

void print_end(const Summary& summary, const Run& run, const std::string& go_on) {
  const Settings& settings = run.settings();
  const std::string folder = settings.out.string();
  const std::string word = shell_word(folder);
  const bool own = run.is_own();  // `daso train` and `daso eval` know nothing of it
  fmt::print("{} after {} steps in {:.1f} s; all output is in {}\n", result_of(summary),
             summary.steps, summary.seconds, folder);
  print_views(summary);
  fmt::print("look at {}{}\n", (settings.out / "report.html").string(),
             settings.trace ? ", or trace.json in ui.perfetto.dev" : "");
  if (run.finished()) {
    fmt::print("try next: {}daso export {} --to model.safetensors\n",
               own ? "" : fmt::format("daso eval {}   ", word), word);
  } else {
    fmt::print("stopped before its end; go on with: {}\n",
               go_on.empty() ? "the same command and --resume" : go_on);
  }
}

// Where all output goes; nothing of another run is there.
void open_folder(const Run& run) {
  const Settings& settings = run.settings();
  const std::string folder = settings.out.string();
  require(!folder.empty(), "settings.out names the folder for all output of a run: give one");
  require(settings.resume || run.left() || !newest_checkpoint(settings.out / "checkpoints"),
          "--out {} holds a run already: give another folder, or --resume to go on with it",
          folder);
  make_folder(settings.out);
}

// A launcher that gives every rank its own command line can make them differ.
void require_same_settings(World& world, const Settings& settings) {
  const std::string own = toml_of(configuration_of(settings));
  const std::vector<std::string> all = gather_text(world.everyone(), own, world.limit());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    require(all[rank] == all[0], "rank {} has other settings than rank 0: give all the same", rank);
  }
}

}  // namespace

// The file with which a run goes on. It belongs to the newest checkpoint: flags of an attempt to go
// on that was refused, or diverged, do not stay.
class TrainOutput::Configuration {
 public:
  // The course is borrowed.
  Configuration(fs::path file, std::string text, const Course& course)
      : file_(std::move(file)), text_(std::move(text)), course_(course) {
    if (!course_.resumed() || !is_there(file_)) write();
    // What the run was started with stays, however many nodes are left of it.
    if (course_.takeover().any) written_ = true;
  }
  ~Configuration() {
    try {
      follow();
    } catch (const Error& error) {
      fmt::print(stderr, "daso: warning: {}\n", error.what());
    }
  }
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;

  void follow() {
    if (!written_ && course_.has_saved()) write();
  }

 private:
  void write() {
    write_file(file_, text_);
    written_ = true;
  }

  const fs::path file_;
  const std::string text_;
  const Course& course_;
  bool written_ = false;
};

Values resolved_configuration(const World& world, const Course& course) {
  Values all = configuration_of(course.settings());
  const Topology& topology = world.topology();
  std::vector<std::size_t> ranks;
  ranks.reserve(static_cast<std::size_t>(topology.nodes()));
  for (int node = 0; node < topology.nodes(); ++node) {
    ranks.push_back(topology.ranks_of(node).size());
  }
  // One number where it is the same for all, so that other --nodes can be given beside it.
  if (topology.smallest_node() == topology.largest_node()) ranks.resize(1);
  all.emplace_back("nodes", fmt::format("{}", topology.nodes()));
  all.emplace_back("ranks-per-node", fmt::format("{}", fmt::join(ranks, ",")));
  return all;
}

void prepare_output(World& world, const Run& run) {
  open_folder(run);
  require_same_settings(world, run.settings());
}

TrainOutput::TrainOutput(const World& world, const Course& course, const OutputOptions& options)
    : run_(course.run()), course_(course), options_(options) {
  const Settings& settings = run_.settings();
  const bool goes_on = course.takeover().any;
  if (goes_on) make_folder(settings.out);  // rank 0 may have been on another machine
  const Values resolved = resolved_configuration(world, course);
  configuration_ =
      std::make_unique<Configuration>(settings.out / kConfigFile, toml_of(resolved), course);
  if (options_.lines && !goes_on) print_start(world, course, resolved, options_.note);
  if (!goes_on && settings.precision == Precision::kBf16 && find_amx() == Amx::kCapped) {
    fmt::print(stderr, "daso: note: AMX: {}\n", text_of(find_amx()));
  }
  report_.emplace(world, course, /*quiet=*/!options_.lines);
  if (goes_on) report_->show_view(run_.place());
}

TrainOutput::~TrainOutput() = default;

void TrainOutput::operator()(const Progress& now) {
  configuration_->follow();
  (*report_)(now);
}

void TrainOutput::leave() { report_->add_outcomes(course_.untold()); }

void TrainOutput::end(Summary& summary) {
  if (!summary.finished) report_->add_stop(run_.place());
  report_->end(summary);
  if (options_.lines) print_end(summary, run_, options_.go_on);
}

}  // namespace daso
