// SPDX-License-Identifier: Apache-2.0
// Loaded into the processes of a run by LD_PRELOAD: ends one rank, once, at a moment of its talk
// with its launcher (comm/launcher_line.h) that the environment names.
//
//   CRASH_RANK   the rank
//   CRASH_AT     "before WORDS"    it is about to say so, as in "before prepared 5"
//                "after WORDS"     it has said so
//                "told WORDS"      it has been given the answer, as in "told start 5"
//                "told WORDS + N"  and has sent to other ranks N times since
//   CRASH_MARK   a file that is made when it happens, and must not be there before: the rank that is
//                started in its place lives
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Plan {
  enum class When { kBefore, kAfter, kTold };

  Plan() {
    std::string text = variable("CRASH_AT");
    const std::string line_text = variable("DASO_LAUNCHER_LINE");
    if (text.empty() || line_text.empty() || variable("RANK") != variable("CRASH_RANK")) return;
    line = std::atoi(line_text.c_str());
    const std::size_t plus = text.find(" + ");
    if (plus != std::string::npos) sends = std::atol(text.c_str() + plus + 3);
    text.resize(std::min(plus, text.size()));
    const std::size_t space = text.find(' ');
    const std::string_view first = std::string_view(text).substr(0, space);
    when = first == "before" ? When::kBefore : first == "after" ? When::kAfter : When::kTold;
    words = text.substr(space + 1);
  }

  int line = -1;  // to the launcher; -1: this process is to live
  When when = When::kBefore;
  std::string words;
  long sends = 0;
};

const Plan& plan() {
  static const Plan one;
  return one;
}

std::mutex mutex;
std::string answer_begins;            // of the question that the plan names; guarded
std::atomic<long> sends_left = -1;    // until it happens; -1: not yet

void crash() {
  const int mark = ::open(variable("CRASH_MARK").c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
  if (mark < 0) return;
  ::close(mark);
  ::kill(::getpid(), SIGKILL);
}

// Without the number of a question and the end of the line.
std::string_view words_of(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  const std::size_t space = text.find_first_not_of("0123456789");
  return space == 0 || space == std::string_view::npos ? text : text.substr(space + 1);
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t send(int socket, const void* bytes, size_t length, int flags) {
  static auto* const real = next<decltype(send)>("send");
  const std::string_view text(static_cast<const char*>(bytes), length);
  const bool meant = socket == plan().line && words_of(text) == plan().words;
  if (!meant) return real(socket, bytes, length, flags);
  if (plan().when == Plan::When::kBefore) crash();
  if (plan().when == Plan::When::kTold) {
    const std::lock_guard lock(mutex);
    answer_begins = text.substr(0, text.find(' ') + 1);
  }
  const ssize_t sent = real(socket, bytes, length, flags);
  if (plan().when == Plan::When::kAfter) crash();
  return sent;
}

extern "C" ssize_t recv(int socket, void* bytes, size_t length, int flags) {
  static auto* const real = next<decltype(recv)>("recv");
  const ssize_t got = real(socket, bytes, length, flags);
  if (got <= 0 || socket != plan().line) return got;
  const std::string text = "\n" + std::string(static_cast<const char*>(bytes), got);
  const std::lock_guard lock(mutex);
  if (answer_begins.empty() || text.find("\n" + answer_begins) == std::string::npos) return got;
  answer_begins.clear();
  if (plan().sends == 0) crash();
  sends_left = plan().sends;
  return got;
}

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static auto* const real = next<decltype(sendmsg)>("sendmsg");
  const ssize_t sent = real(socket, message, flags);
  if (sends_left > 0 && --sends_left == 0) crash();
  return sent;
}
