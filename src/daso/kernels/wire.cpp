// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/wire.h"

#include <array>
#include <bit>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "daso/kernels/packed_formats.h"
#include "daso/kernels/simd/scalar.h"

namespace daso {
namespace {

// In the order of the enumeration, like all here.
constexpr std::array<std::string_view, kWires> kNames = {
    "fp32",  "bf16",  "fp16",  "int8",  "int4",  "qsgd1", "qsgd2",
    "qsgd3", "qsgd4", "qsgd5", "qsgd6", "qsgd7", "qsgd8"};

struct WireTraits {
  std::size_t block_bytes;
  std::uint32_t largest;  // magnitude that it carries, as bits
};

template <typename... F>
constexpr std::array<WireTraits, kWires> traits_in(kernels::FormatList<F...> /*formats*/) {
  static_assert(sizeof...(F) == kWires);
  return {WireTraits{F::kBlockBytes, F::kLargest}...};
}

constexpr std::array<WireTraits, kWires> kTraits = traits_in(kernels::Formats<simd::Scalar>{});

constexpr std::uint64_t kRounding = 6;  // tells this use of the seed from others

const WireTraits& traits_of(Wire wire) { return kTraits.at(static_cast<std::size_t>(wire)); }

}  // namespace

std::string_view name_of(Wire wire) { return kNames.at(static_cast<std::size_t>(wire)); }

std::vector<std::string> wire_names() { return {kNames.begin(), kNames.end()}; }

std::optional<Wire> find_wire(std::string_view name) {
  for (std::size_t i = 0; i < kWires; ++i) {
    if (kNames.at(i) == name) return static_cast<Wire>(i);
  }
  return std::nullopt;
}

std::size_t encoded_bytes(Wire wire, std::size_t elements) {
  DASO_ASSERT(elements % kBlockElements == 0);
  return elements / kBlockElements * traits_of(wire).block_bytes;
}

float largest_on(Wire wire) { return std::bit_cast<float>(traits_of(wire).largest); }

std::uint64_t draw_key(std::uint64_t seed, std::int64_t exchange, std::int64_t sender) {
  return RandomStream{seed, kRounding, static_cast<std::uint64_t>(exchange),
                      static_cast<std::uint64_t>(sender)}
      .next();
}

}  // namespace daso
