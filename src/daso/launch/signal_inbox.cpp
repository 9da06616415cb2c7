// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/signal_inbox.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "daso/base/error.h"
#include "daso/launch/stop_signals.h"

namespace daso {

SignalInbox::SignalInbox() {
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
  descriptor_ = FileDescriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  DASO_ASSERT(descriptor_.open());
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
  if (::read(descriptor_.get(), &found, sizeof found) != sizeof found) return std::nullopt;
  const auto signal = static_cast<int>(found.ssi_signo);
  return signal == SIGHUP ? SIGTERM : signal;  // which programs know how to end by
}

}  // namespace daso
