// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <memory>

#include "daso/base/seconds.h"

namespace daso {

// An operation as whoever waits for it sees it; BackendOperation in operation.h is the one of
// today. There are two ways to its end, and room for a third: the thread asks whether it is
// reached, the thread waits for it with a limit, or, once operations run on devices, a stream of
// the device waits for it while the thread goes on. Nobody who holds a Pending sees anything else
// of a backend, so that the third way is one more function here and in Pending.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual bool done() = 0;
  virtual at::Tensor wait(Seconds limit) = 0;
};

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

  // True once the operation has ended, well or not: wait() then no longer blocks. Messages between
  // two ranks may say so only to one who waits, and are not done until then.
  bool done() const;

  // Blocks until the operation is done and gives its result. Throws PeerError when a peer is gone,
  // or when the limit (or the group's own, if that is shorter) has passed; ConfigError when a peer
  // called something else. The world is broken after either: every later wait throws as well.
  at::Tensor wait(Seconds limit) &&;

 private:
  std::unique_ptr<Operation> operation_;
};

}  // namespace daso
