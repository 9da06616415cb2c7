// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/statistics.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/table.h"
#include "daso/base/error.h"
#include "daso/base/seconds.h"
#include "daso/base/values.h"
#include "daso/data/image_folder.h"
#include "daso/data/loader.h"

namespace daso::cli {
namespace {

using namespace bench;

using nlohmann::ordered_json;

constexpr int kRounds = 15;  // short ones: a moment that others disturb costs one of many
constexpr int kBatch = 16;
constexpr int kEpoch = 0;  // both go through the same files in the same order
constexpr double kMegabyte = 1e6;

struct BenchLoaderOptions {
  std::string data;
  int threads = 1;
  Seconds seconds{1};  // of one measurement
  bool json = false;
};

// What one of the two got done in a round.
struct Work {
  double images = 0;
  double bytes = 0;  // of files
  double seconds = 0;

  double images_per_second() const { return images / seconds; }
};

ShardOptions shard_options(const Dataset& data) {
  return {.examples = data.size(), .ranks = 1, .batch_size = kBatch, .seed = 1};
}

// The libraries alone: files are read and decoded as a loader would have it, on as many threads,
// and nothing is done with them.
Work decode(const ImageFolder& images, const BenchLoaderOptions& options) {
  const std::vector<std::int64_t> order = shard_of(shard_options(images), kEpoch, 0);
  std::atomic<std::uint64_t> next = 0;
  const auto begin = Clock::now();
  const Deadline deadline(options.seconds);
  const auto work = [&] {
    Work done;
    while (!deadline.passed()) {
      const std::uint64_t number = next++;
      const std::int64_t index = order[number % order.size()];
      done.bytes += static_cast<double>(images.decode_only(index, RandomStream{number}));
      ++done.images;
    }
    return done;
  };
  std::vector<std::future<Work>> threads;
  threads.reserve(static_cast<std::size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) {
    threads.push_back(std::async(std::launch::async, work));
  }
  Work all;
  for (std::future<Work>& thread : threads) {
    const Work done = thread.get();
    all.images += done.images;
    all.bytes += done.bytes;
  }
  all.seconds = since(begin).count();
  return all;
}

// Batches as a training would take them, if it took no time itself.
Work load(const std::shared_ptr<const Dataset>& data, const BenchLoaderOptions& options) {
  Loader loader(data, {.shard = shard_options(*data),
                       .threads = options.threads,
                       .augment = Augment::kResizedCropFlip,
                       .normalisation = normalisation_of(data)});
  Work done;
  const auto begin = Clock::now();
  const Deadline deadline(options.seconds);
  for (std::int64_t taken = 0; !deadline.passed(); ++taken) {
    if (taken % loader.batches() == 0) loader.start(kEpoch);
    loader.next();
    done.images += kBatch;
  }
  done.seconds = since(begin).count();
  return done;
}

struct Result {
  std::string name;
  double images_per_second = 0;     // median over the rounds
  double megabytes_per_second = 0;  // of files
};

struct Results {
  Result libraries;
  Result loader;
  double ratio = 0;       // loader / libraries of one round, median
  double file_bytes = 0;  // mean of the files that were decoded
};

// Until a round comes to no file that was not read before: else the libraries, who go first, would
// fetch files from the disk for the loader.
void warm_up(const ImageFolder& images, const BenchLoaderOptions& options) {
  double farthest = 0;
  while (true) {
    const double images_read = decode(images, options).images;
    if (images_read <= farthest) return;
    farthest = images_read;
  }
}

Results measure(const std::shared_ptr<const Dataset>& data, const ImageFolder& images,
                const BenchLoaderOptions& options) {
  std::vector<double> decoded;
  std::vector<double> loaded;
  std::vector<double> ratios;
  Work all;
  warm_up(images, options);
  for (int round = 0; round < kRounds; ++round) {
    const Work alone = decode(images, options);
    decoded.push_back(alone.images_per_second());
    loaded.push_back(load(data, options).images_per_second());
    ratios.push_back(loaded.back() / decoded.back());
    all.images += alone.images;
    all.bytes += alone.bytes;
  }
  const double file_bytes = all.bytes / all.images;
  const auto result = [&](const char* name, const std::vector<double>& rates) {
    const double rate = median(rates);
    return Result{name, rate, rate * file_bytes / kMegabyte};
  };
  return {.libraries = result("libraries", decoded),
          .loader = result("loader", loaded),
          .ratio = median(ratios),
          .file_bytes = file_bytes};
}

void print_table(const Results& results) {
  const Table table({{"", 10, /*left=*/true}, {"images/s", 10}, {"MB/s", 10}});
  fmt::print("{}\n", table.header());
  for (const Result& one : {results.libraries, results.loader}) {
    fmt::print("{}\n", table.row({one.name, fmt::format("{:.1f}", one.images_per_second),
                                  fmt::format("{:.1f}", one.megabytes_per_second)}));
  }
  fmt::print("\nloader / libraries: {:.3f}\n", results.ratio);
}

ordered_json json_of(const Result& result) {
  return {{"what", result.name},
          {"images_per_second", result.images_per_second},
          {"megabytes_per_second", result.megabytes_per_second}};
}

int act(const BenchLoaderOptions& options) {
  const std::shared_ptr<const Dataset> data = open_data(options.data).train;
  const auto* const images = dynamic_cast<const ImageFolder*>(data.get());
  require(images != nullptr, "daso bench loader is for --data images:DIR, got '{}'", options.data);
  validate(shard_options(*data));
  const Results results = measure(data, *images, options);
  if (options.json) {
    const ordered_json report = {
        {"command", "bench loader"},
        {"data", options.data},
        {"images", data->size()},
        {"file_bytes", results.file_bytes},
        {"threads", options.threads},
        {"rounds", kRounds},
        {"seconds", options.seconds.count()},
        {"results", ordered_json::array({json_of(results.libraries), json_of(results.loader)})},
        {"ratio", results.ratio}};
    fmt::print("{}\n", report.dump(2));
    return kExitOk;
  }
  fmt::print("{} images, {:.0f} bytes a file, {} threads, {} rounds of {} s each\n\n", data->size(),
             results.file_bytes, options.threads, kRounds, options.seconds.count());
  print_table(results);
  return kExitOk;
}

}  // namespace

Command add_bench_loader(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("loader", "Images per second, against the libraries that decode them");
  const auto options = std::make_shared<BenchLoaderOptions>();
  Flags flags(*app);
  app->add_option("--data", options->data, "images:DIR")->required();
  flags.count("--loader-threads", "Threads of both, up to 1024", options->threads, 1, kMostThreads)
      ->default_str(std::to_string(options->threads));
  app->add_option_function<std::string>(
         "--seconds",
         [options](const std::string& text) {
           options->seconds = parse_seconds("--seconds", text, Seconds(0.01));
         },
         "Of each measurement")
      ->type_name("SECONDS")
      ->default_str(fmt::format("{}", options->seconds.count()));
  app->add_flag("--json", options->json, "Print one JSON object");
  app->footer("docs/measuring.md defines every number.");
  return {app, [options](const Invocation&) { return act(*options); }};
}

}  // namespace daso::cli
