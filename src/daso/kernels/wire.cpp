// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/wire.h"

#include <array>
#include <bit>

#include "daso/base/error.h"
#include "daso/kernels/format_list.h"
#include "daso/kernels/kernels.h"
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

bool encode(Wire wire, std::span<const float> values, std::span<const float> anchor,
            std::span<std::byte> encoded, const Draws& draws, InstructionSet set) {
  DASO_ASSERT(anchor.size() == values.size());
  DASO_ASSERT(encoded.size() == encoded_bytes(wire, values.size()));
  return kernels::kernels_of(wire, set).encode(
      {values.data(), anchor.data(), encoded.data(), values.size() / kBlockElements, draws});
}

std::optional<std::size_t> first_non_finite(Wire wire, std::span<const float> values,
                                            std::span<const float> anchor) {
  DASO_ASSERT(anchor.size() == values.size());
  const std::uint32_t largest = traits_of(wire).largest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i] - anchor[i]);
    if ((bits & 0x7fffffffU) > largest) return i;
  }
  return std::nullopt;
}

void decode(Wire wire, std::span<const std::byte> encoded, std::span<float> values,
            InstructionSet set) {
  DASO_ASSERT(encoded.size() == encoded_bytes(wire, values.size()));
  kernels::kernels_of(wire, set).decode(
      {encoded.data(), values.data(), values.size() / kBlockElements});
}

}  // namespace daso
