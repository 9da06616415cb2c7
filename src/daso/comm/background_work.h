// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

namespace c10d {
class Work;
enum class OpType : std::uint8_t;
}  // namespace c10d

namespace daso {

// An operation that a thread of a backend of ours does, in one or more parts.
struct BackgroundWork {
  c10::intrusive_ptr<c10d::Work> work;  // the caller's end of it
  // To be called once for every part, from any thread. The work ends with the last one, by the
  // first error; null: there was none. It holds the results.
  std::function<void(const std::exception_ptr& error)> end_part;
};

BackgroundWork begin_work(int rank, c10d::OpType type, std::vector<at::Tensor> results,
                          std::size_t parts);

}  // namespace daso
