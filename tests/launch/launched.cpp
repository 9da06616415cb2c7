// SPDX-License-Identifier: Apache-2.0
#include "launched.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "daso/base/error.h"
#include "process.h"

namespace daso::test {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(5);

struct Ends {
  FileDescriptor ours;
  FileDescriptor theirs;
};

Ends pipe_ends() {
  std::array<int, 2> ends{};
  DASO_ASSERT(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

Ends terminal_ends() {
  int ours = 0;
  int theirs = 0;
  DASO_ASSERT(::openpty(&ours, &theirs, nullptr, nullptr, nullptr) == 0);
  ::fcntl(ours, F_SETFD, FD_CLOEXEC);
  ::fcntl(theirs, F_SETFD, FD_CLOEXEC);
  return {FileDescriptor(ours), FileDescriptor(theirs)};
}

// Takes what is there; false at the end of the stream.
bool take(FileDescriptor& from, std::string& into) {
  std::array<char, 65536> bytes;
  const ssize_t count = ::read(from.get(), bytes.data(), bytes.size());
  if (count > 0) into.append(bytes.data(), static_cast<std::size_t>(count));
  if (count <= 0) from.close();  // a terminal says EIO when its last writer has gone
  return count > 0;
}

}  // namespace

std::vector<std::string> Launched::script(std::vector<std::string> flags, const std::string& text) {
  flags.insert(flags.end(), {"--", "sh", "-c", text});
  return flags;
}

Launched::Launched(const std::vector<std::string>& words, bool on_terminal) {
  std::vector<std::string> all = {DASO_LAUNCH_PROBE};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  Ends output = on_terminal ? terminal_ends() : pipe_ends();
  Ends error = pipe_ends();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(output.theirs.get(), STDOUT_FILENO);
    ::dup2(error.theirs.get(), STDERR_FILENO);
    ::setpgid(0, 0);  // as a shell does: Ctrl-Z is for groups that have one to go on by
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  output_end_ = std::move(output.ours);
  error_end_ = std::move(error.ours);
}

Launched::~Launched() {
  if (reaped_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Launched::read_some(const Deadline& deadline) {
  std::array<pollfd, 2> polled = {pollfd{output_end_.get(), POLLIN, 0},
                                  pollfd{error_end_.get(), POLLIN, 0}};
  const auto wait = static_cast<int>(whole_milliseconds(deadline.left()).count());
  if (::poll(polled.data(), polled.size(), wait) <= 0) return false;
  if (polled[0].revents != 0) take(output_end_, output_);
  if (polled[1].revents != 0) take(error_end_, error_);
  return true;
}

int Launched::wait() {
  const Deadline deadline(kPatience);
  while ((output_end_.open() || error_end_.open()) && read_some(deadline)) {
  }
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (deadline.passed()) {
      ADD_FAILURE() << "the launcher still runs; it printed:\n" << output_ << error_;
      return -1;
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  reaped_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Launched::read_lines(std::size_t lines) {
  const Deadline deadline(kPatience);
  while (lines_of(output_).size() + lines_of(error_).size() < lines) {
    if (!read_some(deadline)) {
      ADD_FAILURE() << "fewer than " << lines << " lines came:\n" << output_ << error_;
      return;
    }
  }
}

std::vector<pid_t> Launched::process_numbers(std::size_t ranks) {
  const std::string mark = "pid ";
  read_lines(ranks);
  std::set<pid_t> numbers;  // the launcher may quote a line
  for (const std::string& line : lines_of(output_ + error_)) {
    const std::size_t at = line.find(mark);
    if (at != std::string::npos) numbers.insert(std::stoi(line.substr(at + mark.size())));
  }
  EXPECT_EQ(numbers.size(), ranks) << output_ << error_;
  return {numbers.begin(), numbers.end()};
}

std::optional<char> state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // The state follows the name in parentheses.
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? std::nullopt : std::optional(text[name_end + 2]);
}

bool gone(pid_t pid) {
  return holds_within(kPatience, [pid] { return state_of(pid).value_or('Z') == 'Z'; });
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace daso::test
