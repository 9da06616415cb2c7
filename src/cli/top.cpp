// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/top_view.h"
#include "daso/base/checked_json.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/run/interrupt.h"

namespace daso::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kBetweenViews = 500;  // milliseconds

struct TopOptions {
  std::string run;
  bool once = false;
  bool json = false;
};

fs::path status_file(const std::string& run) { return fs::path(run) / "status.json"; }

std::string read_status(const std::string& run) {
  require(is_folder(run),
          "{} is not a folder; daso top takes that of a run, --out of daso "
          "train",
          run);
  const fs::path file = status_file(run);
  require(is_there(file),
          "{} is not there: a run writes it as soon as it trains; is {} the folder of a run, --out "
          "of daso train?",
          file.string(), run);
  return read_file(file);
}

nlohmann::json status_of(const std::string& run) {
  const auto status = json_in(read_status(run));
  require(status && status->is_object(),
          "{} is not a JSON object; a run writes it whole or not at all",
          status_file(run).string());
  return *status;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

// Of the terminal; the usual where it does not tell.
ViewSize view_size() {
  winsize size{};
  const bool known =
      ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  return known ? ViewSize{.width = size.ws_col, .height = size.ws_row} : ViewSize{};
}

// The terminal's second screen, without cursor, and keys that arrive one by one and unseen. All is
// as it was when the object dies.
class Screen {
 public:
  Screen() : keys_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (keys_) {
      termios quiet = before_;
      quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      quiet.c_cc[VSUSP] = _POSIX_VDISABLE;  // the shell would come back on the second screen
      ::tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    }
    write("\033[?1049h\033[?25l");
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    write("\033[?25h\033[?1049l");
    if (keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  // Over what was there, line by line: clearing first would flicker. The last line has no end, as
  // that would push the first one off the screen.
  void show(const std::string& view) const {
    std::string text = "\033[H";
    for (const char letter : view) {
      if (letter == '\n') {
        text += "\033[K\r\n";
      } else {
        text += letter;
      }
    }
    text.resize(text.size() - 2);
    write(text + "\033[J");
  }

  // Waits until it is time for the next view; true if q was pressed or there are no more keys. A
  // signal ends the wait.
  bool asked_to_quit() const {
    pollfd keys{.fd = keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    if (::poll(&keys, 1, kBetweenViews) <= 0) return false;
    char key = 0;
    return ::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q';
  }

 private:
  static void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  termios before_{};
  bool keys_;
};

// A terminal needs a line for what comes next; a file has room for all ranks.
void print_view(const nlohmann::json& status) {
  ViewSize size = view_size();
  size.height = is_terminal() ? size.height - 1 : std::numeric_limits<int>::max();
  fmt::print("{}", top_view(status, unix_seconds(), size));
}

// Until the run is over; its last view stays on the first screen.
int watch(const std::string& run) {
  nlohmann::json status = status_of(run);
  {
    const Interrupt interrupt;
    const Screen screen;
    while (!is_over(status)) {
      screen.show(top_view(status, unix_seconds(), view_size()));
      if (screen.asked_to_quit() || interrupt.signal()) return kExitOk;
      status = status_of(run);
    }
  }
  print_view(status);
  return kExitOk;
}

int top(const TopOptions& options) {
  if (options.json) {
    fmt::print("{}", read_status(options.run));
    return kExitOk;
  }
  if (!options.once && is_terminal()) return watch(options.run);
  print_view(status_of(options.run));
  return kExitOk;
}

}  // namespace

Command add_top(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("top", "Watch a run that is going on, in the terminal");
  const auto options = std::make_shared<TopOptions>();
  app->add_option("run", options->run, "The run's folder")->required();
  app->add_flag("--once", options->once, "Print the view once, as if not on a terminal");
  app->add_flag("--json", options->json, "Print the run's status.json");
  app->footer("See docs/tracing.md.");
  return {app, [options](const Invocation&) { return top(*options); }};
}

}  // namespace daso::cli
