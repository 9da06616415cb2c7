// SPDX-License-Identifier: Apache-2.0
//
// What the norms of a step of LARS cost: of parameters and gradients in one pass, or one after the
// other. From what the nearest cache holds to what none does.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "daso/kernels/norm.h"

namespace daso {
namespace {

constexpr std::int64_t kBytes = 8;  // of a parameter and its gradient

void in_one_pass(benchmark::State& state) {
  const auto elements = static_cast<std::size_t>(state.range(0));
  const std::vector<float> parameters(elements, 1);
  const std::vector<float> gradients(elements, 2);
  for (auto _ : state) {
    Norms norms = norms_of(parameters, gradients);
    benchmark::DoNotOptimize(norms);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * kBytes);
}
BENCHMARK(in_one_pass)->RangeMultiplier(16)->Range(1 << 12, 1 << 24);

void one_after_the_other(benchmark::State& state) {
  const auto elements = static_cast<std::size_t>(state.range(0));
  const std::vector<float> parameters(elements, 1);
  const std::vector<float> gradients(elements, 2);
  for (auto _ : state) {
    Norms norms{norm_of(parameters), norm_of(gradients)};
    benchmark::DoNotOptimize(norms);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * kBytes);
}
BENCHMARK(one_after_the_other)->RangeMultiplier(16)->Range(1 << 12, 1 << 24);

}  // namespace
}  // namespace daso

BENCHMARK_MAIN();
