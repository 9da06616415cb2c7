// SPDX-License-Identifier: Apache-2.0
//
// What measuring costs: an event of the timeline, recorded or not, and what a step has of them.
#include "daso/base/timeline.h"

#include <benchmark/benchmark.h>

namespace daso {
namespace {

// Kept for a while, as in a trace of many steps, then dropped, so that memory stays bounded.
constexpr int kKept = 100000;

void span_without_recording(benchmark::State& state) {
  Timeline timeline;
  for (auto _ : state) {
    const Span span(timeline, Track::kTraining, "forward", 1);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(span_without_recording);

void timed_span_without_recording(benchmark::State& state) {
  Timeline timeline;
  for (auto _ : state) {
    const TimedSpan span(timeline, Track::kWaiting, "gradients", 1);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(timed_span_without_recording);

void span_recorded(benchmark::State& state) {
  for (auto _ : state) {
    Timeline timeline;
    timeline.record(true);
    for (int i = 0; i < kKept; ++i) const Span span(timeline, Track::kTraining, "forward", i);
    benchmark::DoNotOptimize(timeline.events().size());
  }
  state.SetItemsProcessed(state.iterations() * kKept);
}
BENCHMARK(span_recorded)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace daso

BENCHMARK_MAIN();
