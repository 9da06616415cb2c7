// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/signal_inbox.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "daso/base/error.h"
#include "daso/launch/stop_signals.h"

namespace daso {
namespace {

bool watch(const FileDescriptor& epoll, int descriptor) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

SignalInbox::SignalInbox(SignalSource source) {
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : kStopSignals) ::sigaddset(&taken, signal);
  ::sigaddset(&taken, SIGCHLD);
  // The terminal is gone, or says Ctrl-Z. Who started us may have had them ignored, as nohup does.
  for (const int signal : {SIGHUP, SIGTSTP}) {
    struct sigaction found {};
    ::sigaction(signal, nullptr, &found);
    if (found.sa_handler != SIG_IGN) ::sigaddset(&taken, signal);
  }
  system_ = FileDescriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  descriptor_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  DASO_ASSERT(system_.open() && descriptor_.open() && watch(descriptor_, system_.get()));
  // A file or /dev/null in its place can tell nothing, and is refused.
  input_ = source == SignalSource::kInput && watch(descriptor_, STDIN_FILENO);
  sigset_t blocked = taken;
  ::sigaddset(&blocked, SIGPIPE);
  DASO_ASSERT(::pthread_sigmask(SIG_BLOCK, &blocked, &before_) == 0);
}

SignalInbox::~SignalInbox() {
  // One that waits would end the process the moment it is let through.
  sigset_t pipe;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  const timespec at_once{};
  while (::sigtimedwait(&pipe, nullptr, &at_once) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalInbox::take() {
  signalfd_siginfo found{};
  const bool any = ::read(system_.get(), &found, sizeof found) == sizeof found;
  const std::optional<int> signal = any ? static_cast<int>(found.ssi_signo) : take_from_input();
  if (signal && signal != SIGCHLD) by_input_ = !any;
  return signal == SIGHUP ? SIGTERM : signal;  // which programs know how to end by
}

std::optional<int> SignalInbox::take_from_input() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (!input_ || ::poll(&input, 1, 0) <= 0) return std::nullopt;
  unsigned char signal = 0;
  if (::read(STDIN_FILENO, &signal, 1) == 1) {
    const bool ends = signal == SIGINT || signal == SIGTERM || signal == SIGUSR1;
    return ends ? std::optional<int>(signal) : std::nullopt;
  }
  ::epoll_ctl(descriptor_.get(), EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
  input_ = false;
  return SIGTERM;
}

}  // namespace daso
