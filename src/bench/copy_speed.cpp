// SPDX-License-Identifier: Apache-2.0
#include "bench/copy_speed.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "daso/base/error.h"
#include "daso/base/seconds.h"

namespace daso::bench {
namespace {

template <typename Work>
double seconds_of(const Work& work) {
  const auto start = Clock::now();
  work();
  return since(start).count();
}

#ifdef __x86_64__
// Whole cache lines, written without reading them first.
void copy_past_the_caches(std::byte* target, const std::byte* source, std::size_t bytes) {
  for (std::size_t i = 0; i + kCacheLine <= bytes; i += kCacheLine) {
    const auto* from = reinterpret_cast<const __m128i*>(source + i);
    auto* to = reinterpret_cast<__m128i*>(target + i);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  _mm_sfence();
}
#else
void copy_past_the_caches(std::byte* target, const std::byte* source, std::size_t bytes) {
  std::memcpy(target, source, bytes);
}
#endif

}  // namespace

CopySpeed::CopySpeed(std::size_t most_bytes)
    : source_(most_bytes / 2, std::byte{1}), target_(most_bytes / 2) {}

double CopySpeed::seconds(std::size_t bytes) {
  DASO_ASSERT(bytes / 2 <= source_.size());
  std::byte* target = target_.data();
  const std::byte* source = source_.data();
  const double usual = seconds_of([&] { std::memcpy(target, source, bytes / 2); });
  const double past = seconds_of([&] { copy_past_the_caches(target, source, bytes / 2); });
  return std::min(usual, past);
}

}  // namespace daso::bench
