// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/switchboard.h"

#include "daso/base/error.h"
#include "daso/base/thread_name.h"
#include "daso/launch/tcp/operator.h"

namespace daso {

Switchboard::Switchboard(SwitchboardOptions options, SwitchboardEvents events) {
  require(!options.key.empty(), "launchers that write to each other need the job's key");
  require(options.greeting.text.size() <= kMostGreetingText,
          "a launcher's greeting may have {} bytes, got {}", kMostGreetingText,
          options.greeting.text.size());
  operator_ = std::make_unique<Operator>(std::move(options), std::move(events));
  thread_ = std::jthread([this] { operator_->work(); });
  name_thread(thread_.native_handle(), "daso board");
}

Switchboard::~Switchboard() { end(/*at_once=*/false); }

void Switchboard::send(membership::NodeId to, std::vector<std::byte> message) {
  post([this, to, message = std::move(message)] { operator_->send(to, message); });
}

void Switchboard::know(membership::NodeId node, Address address) {
  post([this, node, address = std::move(address)] { operator_->know(node, address); });
}

void Switchboard::forget(membership::NodeId node) {
  post([this, node] { operator_->forget(node); });
}

void Switchboard::post(std::function<void()> function) { operator_->post(std::move(function)); }

std::string Switchboard::trouble(membership::NodeId node) const { return operator_->trouble(node); }

void Switchboard::abort() { end(/*at_once=*/true); }

void Switchboard::end(bool at_once) {
  if (!thread_.joinable()) return;
  operator_->stop(at_once);
  thread_.join();
  operator_->close();
}

}  // namespace daso
