// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <memory>

#include "daso/base/seconds.h"

namespace daso {

struct Operation;  // in operation.h

// An operation in flight. It holds the buffers while they are in use, and wait() is the only way to
// the result.
//
// A Pending that is dropped without a wait lets its operation finish in the background, buffers
// held until then; its destructor neither throws nor blocks.
class [[nodiscard]] Pending {
 public:
  explicit Pending(std::unique_ptr<Operation> operation);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  // Blocks until the operation is done and gives its result. Throws PeerError when a peer is gone,
  // or when the limit (or the group's own, if that is shorter) has passed; ConfigError when a peer
  // called something else. The world is broken after either: every later wait throws as well.
  at::Tensor wait(Seconds limit) &&;

 private:
  std::unique_ptr<Operation> operation_;
};

}  // namespace daso
