// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/child_process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/launch/stop_signals.h"

namespace daso {
namespace {

constexpr int kCannotRun = 127;  // as in a shell; nobody sees it

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

struct ChildSide {
  const char* path;
  char* const* arguments;
  char* const* environment;
  const Namespaces* node;
  const char* folder;
  const sigset_t* mask;
  int input;  // -1: nothing
  int output;
  int error;
  int line;
  int announce_to;
  int failure_to;  // takes errno if the program cannot run
};

// Between fork and exec, where only async-signal-safe calls are allowed.
[[noreturn]] void become_program(const ChildSide& side) {
  ::setpgid(0, 0);
  // Our number as the launcher knows it. On a node of a cluster getpid() tells another, and so does
  // its /proc.
  std::array<char, 16> digits{};
  const ssize_t count = ::readlink("/proc/self", digits.data(), digits.size() - 1);
  bool ready = count > 0;
  if (ready) {
    digits[static_cast<std::size_t>(count)] = '\n';
    ready = ::write(side.announce_to, digits.data(), static_cast<std::size_t>(count) + 1) > 0;
  }
  ready = ready && (side.node == nullptr || enter(*side.node, side.folder));
  const int input = side.input >= 0 ? side.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ready = ready && input >= 0 && ::dup2(input, STDIN_FILENO) >= 0 &&
          ::dup2(side.output, STDOUT_FILENO) >= 0 && ::dup2(side.error, STDERR_FILENO) >= 0;
  if (side.line >= 0) ready = ready && ::fcntl(side.line, F_SETFD, 0) == 0;
  // What the launcher passes on reaches the program from its first moment, also where a script's &
  // has made the launcher ignore it.
  for (const int signal : kStopSignals) ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, side.mask, nullptr);
  if (ready) ::execve(side.path, side.arguments, side.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(side.failure_to, &error, sizeof error);
  ::_exit(kCannotRun);
}

// Waits until the pipe closes, which exec does; gives errno if something came before.
int failure_from(const FileDescriptor& pipe) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = ::read(pipe.get(), &error, sizeof error);
  } while (bytes < 0 && errno == EINTR);
  return bytes == sizeof error ? error : 0;
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(fmt::format("cannot make a pipe: {}; raise the limit on open files (ulimit -n)",
                            std::strerror(errno)));
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::string find_program(const std::string& name, const Environment& environment) {
  require(!name.empty(), "there is no program to start; write it after --");
  const bool has_folder = name.find('/') != std::string::npos;
  std::vector<std::string> folders = {""};
  if (!has_folder) {
    folders = split(find(environment, "PATH").value_or("/usr/local/bin:/usr/bin:/bin"), ':');
  }
  bool seen = false;
  for (const std::string& folder : folders) {
    std::string path = folder.empty() ? name : fmt::format("{}/{}", folder, name);
    if (!is_file(path)) continue;
    if (::access(path.c_str(), X_OK) == 0) return path;
    seen = true;
  }
  require(!seen, "program '{}' may not be executed; make it executable (chmod +x)", name);
  throw ConfigError(fmt::format("program '{}' not found; check its name and {}", name,
                                has_folder ? "its folder" : "PATH"));
}

ChildProcess::ChildProcess(const ProgramCall& call, const sigset_t& mask, int announce_to) {
  Pipe input;
  if (call.signals_by_input) {
    input = make_pipe();
    ::fcntl(input.read.get(), F_SETFL, 0);  // a program waits for its input
  }
  Pipe output = make_pipe();
  Pipe error = make_pipe();
  Pipe failure = make_pipe();
  ::fcntl(failure.read.get(), F_SETFL, 0);  // here we do wait
  std::vector<std::string> arguments = call.arguments;
  std::vector<std::string> variables;
  for (const auto& [name, value] : call.environment) {
    variables.push_back(fmt::format("{}={}", name, value));
  }
  const std::vector<char*> argument_list = pointers(arguments);
  const std::vector<char*> variable_list = pointers(variables);
  const std::string folder = current_folder();
  const ChildSide side{.path = call.path.c_str(),
                       .arguments = argument_list.data(),
                       .environment = variable_list.data(),
                       .node = call.node,
                       .folder = folder.c_str(),
                       .mask = &mask,
                       .input = input.read.get(),
                       .output = output.write.get(),
                       .error = error.write.get(),
                       .line = call.line,
                       .announce_to = announce_to,
                       .failure_to = failure.write.get()};
  pid_ = call.node == nullptr ? ::fork() : fork_into(call.node->processes);
  if (pid_ == 0) become_program(side);
  if (pid_ < 0) {
    throw ConfigError(
        fmt::format("cannot start '{}': {}; {}", call.path, std::strerror(errno),
                    call.node == nullptr
                        ? "this user or the machine has too many processes: end some, or raise "
                          "the limit (ulimit -u, a container may have its own)"
                        : "has the cluster's node just ended?"));
  }
  ::setpgid(pid_, pid_);  // both sides do it, so that it is done whoever comes first
  failure.write.close();
  const int why = failure_from(failure.read);
  if (why != 0) {
    ::waitpid(pid_, nullptr, 0);
    throw ConfigError(fmt::format("cannot run '{}': {}{}", call.path, std::strerror(why),
                                  why == ENOEXEC ? "; a script needs a first line with #!" : ""));
  }
  input_ = std::move(input.write);
  output_ = std::move(output.read);
  error_ = std::move(error.read);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      error_(std::move(other.error_)),
      end_(other.end_),
      adopted_(std::move(other.adopted_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ == 0) return;
  // Of groups that ended in good order the numbers may have gone to others.
  const bool orderly = look() && end_->signal == 0;
  if (orderly) adopted_.clear();
  send(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

const std::optional<ProcessEnd>& ChildProcess::look() {
  if (end_) return end_;
  siginfo_t found{};
  const int done = ::waitid(P_PID, static_cast<id_t>(pid_), &found, WEXITED | WNOHANG | WNOWAIT);
  if (done != 0 || found.si_pid == 0) return end_;
  end_ =
      found.si_code == CLD_EXITED ? ProcessEnd{found.si_status, 0} : ProcessEnd{0, found.si_status};
  return end_;
}

void ChildProcess::write(const std::string& text) {
  [[maybe_unused]] const ssize_t told = ::write(input_.get(), text.data(), text.size());
}

void ChildProcess::send(int signal) {
  if (input_.open() && signal != SIGKILL) {
    const char byte = static_cast<char>(signal);
    const bool stands = signal == SIGSTOP || signal == SIGCONT;
    [[maybe_unused]] const ssize_t told = stands ? 0 : ::write(input_.get(), &byte, 1);
    return;
  }
  for (const pid_t group : adopted_) ::kill(-group, signal);
  if (adopted_.empty() || signal == SIGKILL) ::kill(-pid_, signal);
}

}  // namespace daso
