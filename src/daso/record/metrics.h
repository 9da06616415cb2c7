// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "daso/record/progress.h"

// Every figure that a run records while it goes on: one row each. The table makes the records of
// metrics.jsonl, TensorBoard's scalars, the figures of status.json and the table of
// docs/measuring.md; the report and `daso top` find figures by metric("name"), which does not
// compile for a name that is not here. A new metric is a field of Progress and a row.
namespace daso {

// JSON has the name of a phase, TensorBoard its number.
using MetricValue = std::variant<std::int64_t, double, Phase>;
using Taken = std::optional<MetricValue>;  // none: a record does not have it

struct Metric {
  std::string_view name;  // in metrics.jsonl
  std::string_view tag;   // TensorBoard's; the part before the slash groups them; empty: not there
  std::string_view unit;
  std::string_view there;    // when a record has it; empty: always
  std::string_view meaning;  // for people: docs/measuring.md
  Taken (*take)(const Progress& now);
};

// In the order of a record.
inline constexpr std::array kMetrics{
    Metric{"step", "", "", "", "Of the run, counted from 0.",
           [](const Progress& now) -> Taken { return now.info.step; }},
    Metric{"epoch", "", "", "", "Counted from 0.",
           [](const Progress& now) -> Taken { return now.info.epoch; }},
    Metric{"seconds", "", "s", "", "Since the run began, in this process.",
           [](const Progress& now) -> Taken { return now.seconds; }},
    Metric{"phase", "schedule/phase", "", "the strategy has phases",
           "`warmup`, `cycling` or `cooldown`; in TensorBoard 0, 1, 2.",
           [](const Progress& now) -> Taken { return now.strategy.phase; }},
    Metric{"skip", "schedule/skip", "steps", "",
           "From the last exchange's start to the next one's; 0 in blocking phases and for "
           "strategies without exchanges.",
           [](const Progress& now) -> Taken { return now.strategy.skip; }},
    Metric{"wait", "schedule/wait", "steps", "",
           "From an exchange's start to its merge; 0 where nothing is exchanged in the background.",
           [](const Progress& now) -> Taken { return now.strategy.wait; }},
    Metric{"learning_rate", "train/learning_rate", "", "", "Of this step.",
           [](const Progress& now) -> Taken { return now.info.rate; }},
    Metric{"train_loss", "train/loss", "nats", "",
           "Mean of the epoch's batches so far of rank 0; at the epoch's end of all ranks.",
           [](const Progress& now) -> Taken { return now.loss; }},
    Metric{"recent_loss", "train/recent_loss", "nats", "",
           "Mean of rank 0's batches since the record before, or since the epoch's beginning where "
           "that came later.",
           [](const Progress& now) -> Taken { return now.recent_loss; }},
    Metric{"samples_per_second", "train/samples_per_second", "1/s", "",
           "Of all ranks, since the epoch's beginning.",
           [](const Progress& now) -> Taken { return now.samples_per_second; }},
    Metric{"wait_share", "", "0 … 1", "",
           "Share of the time since the epoch's beginning in which rank 0 was blocked in "
           "communication.",
           [](const Progress& now) -> Taken { return now.wait_share; }},
    Metric{"wait_seconds", "communication/wait_seconds", "s", "",
           "The same in seconds since the run began, in this process.",
           [](const Progress& now) -> Taken { return now.wait_seconds; }},
    Metric{"bytes_between_nodes", "communication/bytes_between_nodes", "bytes", "",
           "Sent to other nodes by rank 0 since the run began, in this process.",
           [](const Progress& now) -> Taken { return now.bytes_between_nodes; }},
    Metric{"nodes", "members", "", "nodes may come and go", "That belong to the run now.",
           [](const Progress& now) -> Taken {
             return now.members ? Taken(*now.members) : std::nullopt;
           }},
    Metric{"staleness", "exchange/staleness", "steps", "an exchange was merged",
           "From start to merge of the last exchange that was merged.",
           [](const Progress& now) -> Taken { return now.strategy.staleness; }},
    Metric{"distance", "exchange/distance", "", "an exchange was merged",
           "How far the nodes were apart at the last merge: root mean square of the difference "
           "between node 0's parameters and the mean, as they travelled (the wire's rounding "
           "included), over the slice that rank 0 leads.",
           [](const Progress& now) -> Taken { return now.strategy.distance; }},
    Metric{"device_memory", "device/memory", "bytes", "on a GPU",
           "The most memory of rank 0's GPU that its tensors have held at once, since the run "
           "began, in this process.",
           [](const Progress& now) -> Taken {
             return now.device_bytes ? Taken(*now.device_bytes) : std::nullopt;
           }},
    Metric{"device_share", "device/share", "0 … 1",
           "on a GPU, where the driver's libnvidia-ml.so.1 tells it",
           "Share of the last moments in which rank 0's GPU was at work, for this run or others.",
           [](const Progress& now) -> Taken {
             return now.device_share ? Taken(*now.device_share) : std::nullopt;
           }},
    Metric{
        "late_rank", "", "", "several ranks, after 16 steps",
        "The rank that took longest for a step, without the time in which it waited itself: "
        "the latest of the last few. Ranks tell each other every 1 to 8 steps, in the background.",
        [](const Progress& now) -> Taken {
          return now.late ? Taken(now.late->rank) : std::nullopt;
        }},
    Metric{"late_step", "", "", "as `late_rank`", "The step in which it did.",
           [](const Progress& now) -> Taken {
             return now.late ? Taken(now.late->step) : std::nullopt;
           }},
    Metric{"late_seconds", "late/seconds", "s", "as `late_rank`",
           "By how much longer than the middle rank (the lower of two).",
           [](const Progress& now) -> Taken {
             return now.late ? Taken(now.late->seconds) : std::nullopt;
           }},
    Metric{"test_loss", "test/loss", "nats", "at an epoch's end, where it was evaluated",
           "Of the test part.",
           [](const Progress& now) -> Taken {
             return now.test ? Taken(now.test->loss) : std::nullopt;
           }},
    Metric{"test_accuracy", "test/accuracy", "0 … 1", "as `test_loss`",
           "Share of the test part's labels that the model gets right.",
           [](const Progress& now) -> Taken {
             return now.test && has_accuracy(*now.test) ? Taken(now.test->accuracy) : std::nullopt;
           }},
};

// The row of this name, found by the compiler.
consteval const Metric& metric_row(std::string_view name) {
  for (const Metric& metric : kMetrics) {
    if (metric.name == name) return metric;
  }
  throw "there is no such metric";  // what the compiler shows
}
// Its name, as a field of JSON.
consteval const char* metric(std::string_view name) { return metric_row(name).name.data(); }

nlohmann::ordered_json json_of(const MetricValue& value);
double number_of(const MetricValue& value);

// A record of metrics.jsonl: all metrics that are there.
nlohmann::ordered_json record_of(const Progress& now);

// The table as Markdown.
std::string metrics_table();

}  // namespace daso
