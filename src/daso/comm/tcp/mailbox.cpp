// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/mailbox.h"

#include <sys/eventfd.h>

#include "daso/base/error.h"
#include "daso/base/thread_name.h"
#include "daso/comm/tcp/clerk.h"

namespace daso::tcp {
namespace {

constexpr const char* kLeft = "this rank has left";

FileDescriptor new_bell() {
  FileDescriptor bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  DASO_ASSERT(bell.open());
  return bell;
}

}  // namespace

Mailbox::Mailbox(MailboxOptions options) : wake_(new_bell()) {
  clerk_ = std::make_unique<Clerk>(std::move(options), wake_.get(), [this] {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  });
  thread_ = std::jthread([this] { clerk_->work(); });
  name_thread(thread_.native_handle(), "daso mail");
}

Mailbox::~Mailbox() { stop(); }

void Mailbox::ask(Request request) {
  {
    const std::lock_guard lock(mutex_);
    if (!over_) {
      requests_.push_back(std::move(request));
      const std::uint64_t one = 1;
      DASO_ASSERT(::write(wake_.get(), &one, sizeof one) == sizeof one);
      return;
    }
  }
  Clerk::refuse(request, kLeft);
}

void Mailbox::post(int to, Letter letter) { ask(Post{.peer = to, .letter = std::move(letter)}); }

void Mailbox::expect(int from, const Tag& tag, std::span<std::byte> into, Done done) {
  ask(Expect{.peer = from, .tag = tag, .into = into, .done = std::move(done)});
}

Mailbox::Received Mailbox::receive(std::uint32_t group, Seconds limit) {
  const auto letter = std::make_shared<std::promise<Received>>();
  std::future<Received> coming = letter->get_future();
  // The clerk itself ends the wait at the deadline.
  ask(Receive{.group = group, .deadline = Deadline(limit), .letter = letter});
  return coming.get();
}

void Mailbox::connect(const std::map<int, Address>& peers, Seconds limit) {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t missing;
    std::exception_ptr error;
  };
  const auto meeting = std::make_shared<Meeting>();
  meeting->missing = peers.size();
  const Deadline deadline(limit);
  for (const auto& [peer, address] : peers) {
    ask(Connect{.peer = peer,
                .address = address,
                .deadline = deadline,
                .done = [meeting](const std::exception_ptr& error) {
                  const std::lock_guard lock(meeting->mutex);
                  if (!meeting->error) meeting->error = error;
                  --meeting->missing;
                  meeting->changed.notify_all();
                }});
  }
  std::unique_lock lock(meeting->mutex);
  // The clerk itself ends each of them at its deadline.
  meeting->changed.wait(lock, [&] { return meeting->missing == 0 || meeting->error; });
  if (meeting->error) std::rethrow_exception(meeting->error);
}

void Mailbox::end(bool at_once) {
  ask(Stop{.at_once = at_once});
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  if (thread_.joinable()) thread_.join();
  // What came after the clerk had looked for the last time; nobody adds to it any more.
  for (Request& request : requests_) Clerk::refuse(request, kLeft);
  requests_.clear();
}

void Mailbox::stop() { end(/*at_once=*/false); }
void Mailbox::abort() { end(/*at_once=*/true); }

}  // namespace daso::tcp
