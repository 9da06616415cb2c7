// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace daso {

// 64 bits that tell damaged bytes from whole ones: the function that is published as XXH64, with
// seed 0, so other programs can check our files. About as fast as memory is read. It guards against
// accidents and keeps no secret.
std::uint64_t checksum_of(std::span<const std::byte> bytes);

}  // namespace daso
