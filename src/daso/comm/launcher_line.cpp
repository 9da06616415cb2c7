// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/launcher_line.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/thread_name.h"

namespace daso {
namespace {

constexpr Seconds kForAnswer{30};  // from a launcher that need not wait for anybody
constexpr int kBeatMilliseconds = 500;

}  // namespace

void throw_one_world() {
  throw ConfigError(
      "the launcher was told to go on when a node is lost, and this program cannot, since it joins "
      "one world for good: tell it to stop; going on is for daso train, for programs that train by "
      "daso::train_main(), and for daso.Run in Python");
}

std::shared_ptr<LauncherLine> LauncherLine::find(const Environment& environment) {
  const std::optional<std::string> number = daso::find(environment, kLineVariable);
  if (!number) return nullptr;
  const int descriptor = std::stoi(*number);
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // what this process starts has no part in it
  const bool joins = daso::find(environment, kJoinsVariable).has_value();
  return std::make_shared<LauncherLine>(FileDescriptor(descriptor), joins);
}

LauncherLine::LauncherLine(FileDescriptor socket, bool joins)
    : socket_(std::move(socket)),
      joins_(joins),
      thread_([this](const std::stop_token& stop) { read(stop); }) {
  name_thread(thread_.native_handle(), "launcher line");
}

LauncherLine::~LauncherLine() {
  thread_.request_stop();
  ::shutdown(socket_.get(), SHUT_RDWR);
}

NextView LauncherLine::next_view(Seconds limit) {
  std::unique_lock before(mutex_);
  const std::int64_t last = view_;
  before.unlock();
  std::string answer = "wait";
  while (answer == "wait") answer = ask(fmt::format("next {}", last), limit);
  if (answer == "left") throw NodeLeft();
  require(answer.starts_with("view "), "the launcher answered '{}' where a view was due", answer);
  NextView view = view_in(answer.substr(5));
  const std::lock_guard lock(mutex_);
  // It may have ended by now.
  if (view.number > view_) {
    view_ = view.number;
    ended_ = false;
  }
  actions_.clear();
  return view;
}

void LauncherLine::trouble(const std::string& what) {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  const std::int64_t view = view_;
  lock.unlock();
  say(fmt::format("trouble {} {}", view, what.substr(0, what.find('\n'))));
}

Start LauncherLine::start(std::int64_t exchange) {
  const std::vector<std::string> answer =
      split(ask(fmt::format("start {}", exchange), kForAnswer), ' ');
  joiners_.assign(answer.begin() + 1, answer.end());
  std::erase_if(joiners_, [this](const std::string& place) { return copied_to_.contains(place); });
  return answer.front() == "go" ? Start::kGoes : Start::kEnded;
}

std::vector<std::string> LauncherLine::take_joiners() {
  copied_to_.insert(joiners_.begin(), joiners_.end());
  return std::exchange(joiners_, {});
}

void LauncherLine::gives_copies(bool gives) { say(fmt::format("gives {}", gives ? 1 : 0)); }

void LauncherLine::ask_copy(const std::string& place) { say("copy " + place); }

void LauncherLine::caught_up() { say("caught-up"); }

void LauncherLine::prepared(std::int64_t exchange) { say(fmt::format("prepared {}", exchange)); }

bool LauncherLine::committed(std::int64_t exchange, Seconds limit) {
  return ask(fmt::format("outcome {}", exchange), limit) == "commit";
}

bool LauncherLine::ended() {
  const std::lock_guard lock(mutex_);
  return ended_ || closed_;
}

void LauncherLine::when_ended(std::function<void()> action) {
  std::unique_lock lock(mutex_);
  if (!ended_ && !closed_) {
    actions_.push_back(std::move(action));
    return;
  }
  lock.unlock();
  action();
}

void LauncherLine::read(const std::stop_token& stop) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (!stop.stop_requested()) {
    pollfd polled{socket_.get(), POLLIN, 0};
    if (::poll(&polled, 1, kBeatMilliseconds) == 0) {
      beat();
      continue;
    }
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos;) {
      take(text.substr(0, end));
      text.erase(0, end + 1);
    }
  }
  std::vector<std::function<void()>> actions;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    actions.swap(actions_);
  }
  changed_.notify_all();
  for (const auto& action : actions) action();
}

void LauncherLine::take(const std::string& line) {
  constexpr std::string_view kEnded = "ended ";
  std::vector<std::function<void()>> actions;
  {
    const std::lock_guard lock(mutex_);
    if (line.starts_with(kEnded)) {
      const std::int64_t number = std::stoll(line.substr(kEnded.size()));
      if (number < view_) return;
      view_ = number;
      ended_ = true;
      actions.swap(actions_);
    } else {
      const std::string number = fmt::format("{} ", question_);
      if (line.starts_with(number)) answer_ = line.substr(number.size());
    }
  }
  changed_.notify_all();
  for (const auto& action : actions) action();
}

void LauncherLine::say(const std::string& line) {
  const std::string text = line + "\n";
  // A launcher that is gone is noticed where its answer is missing.
  static_cast<void>(!::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL));
}

// Does not wait for a launcher that does not read.
void LauncherLine::beat() {
  constexpr std::string_view kBeat = "beat\n";
  static_cast<void>(
      !::send(socket_.get(), kBeat.data(), kBeat.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

std::string LauncherLine::ask(const std::string& line, Seconds limit) {
  const std::lock_guard one(asking_);
  std::unique_lock lock(mutex_);
  const std::uint64_t number = ++question_;
  answer_.reset();
  lock.unlock();
  say(fmt::format("{} {}", number, line));
  lock.lock();
  const Deadline deadline(limit);
  changed_.wait_until(lock, deadline.when(), [this] { return closed_ || answer_; });
  if (!answer_) {
    throw PeerError(closed_ ? "the launcher of this rank is gone"
                            : fmt::format("the launcher has not answered '{}' within {} s", line,
                                          limit.count()));
  }
  return *std::move(answer_);
}

}  // namespace daso
