// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace daso::test {
namespace {

std::string contents(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void redirect(const std::string& file, int descriptor) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(opened, descriptor);
  ::close(opened);
}

}  // namespace

Process::Process(const std::vector<std::string>& command,
                 const std::map<std::string, std::string>& variables) {
  static int count = 0;
  files_ =
      (std::filesystem::temp_directory_path() / fmt::format("daso_test_{}_{}", ::getpid(), ++count))
          .string();
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  redirect(files_ + ".out", STDOUT_FILENO);
  redirect(files_ + ".err", STDERR_FILENO);
  ::execvp(arguments[0], arguments.data());
  std::perror(arguments[0]);
  ::_exit(127);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      files_(std::move(other.files_)),
      ending_(std::move(other.ending_)) {}

Process::~Process() {
  if (pid_ == 0) return;
  if (!ending_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::filesystem::remove(files_ + ".out");
  std::filesystem::remove(files_ + ".err");
}

void Process::send(int signal) const { ::kill(pid_, signal); }

Ending Process::wait(Seconds limit) {
  if (ending_) return *ending_;
  int status = 0;
  const bool ended = holds_within(limit, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!ended) {
    ADD_FAILURE() << "process " << pid_ << " did not end within " << limit.count() << " s";
    return {-1, Clock::now()};
  }
  ending_ = {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), Clock::now()};
  return *ending_;
}

std::string Process::standard_output() const { return contents(files_ + ".out"); }
std::string Process::standard_error() const { return contents(files_ + ".err"); }

bool is_gone(pid_t pid, Seconds limit) {
  return holds_within(limit, [pid] {
    const std::string status = contents(fmt::format("/proc/{}/stat", pid));
    return status.empty() || status.find(") Z ") != std::string::npos;
  });
}

}  // namespace daso::test
