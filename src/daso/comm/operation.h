// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daso/comm/alarm.h"
#include "daso/comm/lookout.h"
#include "daso/comm/pending.h"

namespace c10d {
class Work;
}

namespace daso {

// What an operation is called in messages, and what must be equal on all ranks that take part.
struct Call {
  std::string what;          // all_reduce(sum, float32[1024])
  std::string group;         // name of the group
  std::int64_t number = 0;   // counts the operations of one group from 0
  bool message = false;      // between two ranks: they count by themselves
  std::string text() const;  // all_reduce(sum, float32[1024]) #12 in group 'everyone'
};

// How one world watches over its operations. `lookout` is null in a world of one.
struct Guard {
  std::shared_ptr<Alarm> alarm;
  std::shared_ptr<Lookout> lookout;
};

// One operation of a c10d backend in flight, between a Group that started it and a Pending that
// waits for it.
struct BackendOperation final : Operation {
  // Set from a thread of the backend when the work ends; outlives the operation if nobody waited.
  struct End {
    bool reached = false;
    std::exception_ptr error;
  };

  Call call;
  Guard guard;
  at::Tensor result;
  c10::intrusive_ptr<c10d::Work> work;  // null: nothing to wait for
  std::shared_ptr<End> end;             // null: the work tells its end only to one who waits in it
  std::function<void()> finish;         // what is left to do on the waiting thread; may be empty

  // Follows the work to its end. Gloo's send and receive have no way to tell: then `end` stays
  // null.
  void follow();
  bool done() override;
  at::Tensor wait(Seconds limit) override;

 private:
  std::exception_ptr wait_for_end(Seconds limit);
  std::exception_ptr wait_inside(Seconds limit);
};

// The exception that a failure of the world means to this call.
[[noreturn]] void throw_failure(const Call& call, const Failure& failure);

// Where a call is compared with those of the peers.
struct Comparison {
  const Store& store;
  std::string key;  // the same on all ranks that take part, and only for this call
  int callers = 0;  // so many take part
  int rank = 0;     // ours, in the world
};

// The first to come writes down what it calls; the others compare, and a difference ends all ranks
// with a ConfigError. Nobody waits for anybody.
void compare_calls(const Comparison& comparison, const Call& call, const Guard& guard);

}  // namespace daso
