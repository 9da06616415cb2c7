// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/base/file_descriptor.h"
#include "daso/base/text.h"
#include "daso/comm/place.h"
#include "daso/launch/launch.h"

namespace daso {
namespace {

constexpr std::size_t kKeptLines = 10;
constexpr std::size_t kKeptBytes = 1000;        // of each of them
constexpr std::size_t kLongestPiece = 1 << 16;  // a longer line passes in pieces
constexpr std::string_view kErrorMark = "daso: ";
constexpr std::string_view kWarningMark = "daso: warning: ";
constexpr std::string_view kNoteMark = "daso: note: ";

std::string_view without_line_end(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

std::optional<int> columns_of(int terminal) {
  winsize size{};
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

}  // namespace

void Sink::add(std::string text) {
  if (broken_ || text.empty()) return;
  // Small neighbours share a write; a line is never spread over two.
  if (queue_.size() > 1 && queue_.back().size() + text.size() <= PIPE_BUF) {
    queue_.back() += text;
  } else {
    queue_.push_back(std::move(text));
  }
}

void Sink::write_some() {
  if (queue_.empty()) return;
  const std::string& text = queue_.front();
  // A pipe that poll() calls ready takes this much without blocking.
  const std::size_t bytes = std::min<std::size_t>(text.size() - written_, PIPE_BUF);
  const ssize_t done = ::write(descriptor_, text.data() + written_, bytes);
  if (done < 0) {
    if (errno == EINTR || errno == EAGAIN) return;
    // The ranks' work is worth more than its log: they go on unheard.
    broken_ = true;
    if (errno != EPIPE) lost_ = errno;
    queue_.clear();
    return;
  }
  written_ += static_cast<std::size_t>(done);
  if (written_ == text.size()) {
    queue_.pop_front();
    written_ = 0;
  }
}

void LastLines::add(std::string_view line) {
  lines_.emplace_back(without_line_end(line).substr(0, kKeptBytes));
  if (lines_.size() > kKeptLines) lines_.pop_front();
}

bool ErrorLines::take(int rank, std::string_view line) {
  if (!line.starts_with(kErrorMark) || line.starts_with(kWarningMark) ||
      line.starts_with(kNoteMark)) {
    return true;
  }
  const bool lost_peer = line.starts_with(kLostPeerMark);
  if (lost_peer && !lost_peer_) lost_peer_ = line;
  const bool repeated = std::any_of(said_.begin(), said_.end(), [&](const Said& other) {
    return other.rank != rank && other.shown && other.line == line;
  });
  const bool shown = !lost_peer && !repeated;
  std::erase_if(said_, [&](const Said& own) { return own.rank == rank; });
  said_.push_back({rank, std::string(line), shown});
  return shown;
}

std::vector<int> ErrorLines::leaders() const {
  std::vector<int> ranks;
  for (const Said& said : said_) {
    if (said.shown) ranks.push_back(said.rank);
  }
  return ranks;
}

bool ErrorLines::shown(int rank) const {
  return std::any_of(said_.begin(), said_.end(),
                     [&](const Said& said) { return said.rank == rank && said.shown; });
}

std::optional<std::string> ErrorLines::held_back(int rank) const {
  const auto own =
      std::find_if(said_.begin(), said_.end(), [&](const Said& said) { return said.rank == rank; });
  if (own == said_.end() || own->shown) return std::nullopt;
  const std::string_view mark = own->line.starts_with(kLostPeerMark) ? kLostPeerMark : kErrorMark;
  return own->line.substr(mark.size());
}

bool ErrorLines::peer_error(int rank) const {
  return std::any_of(said_.begin(), said_.end(), [&](const Said& said) {
    return said.rank == rank && said.line.starts_with(kPythonPeerMark);
  });
}

void LineStream::feed(std::string_view bytes) {
  rest_ += bytes;
  std::size_t begin = 0;
  // A carriage return ends a line as well: progress bars send nothing else.
  for (std::size_t end; (end = rest_.find_first_of("\r\n", begin)) != std::string::npos;) {
    emit(std::string_view(rest_).substr(begin, end + 1 - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  if (rest_.size() > kLongestPiece) emit(std::exchange(rest_, ""));
}

void LineStream::finish() {
  if (rest_.empty() && !inside_) return;
  // Others may write to the same stream after us.
  if (!options_.prefix.empty()) rest_ += '\n';
  if (!rest_.empty()) emit(std::exchange(rest_, ""));
}

void LineStream::emit(std::string_view piece) {
  const bool begins = !inside_ && !(after_cr_ && piece == "\n");
  inside_ = piece.back() != '\n' && piece.back() != '\r';
  after_cr_ = piece.back() == '\r';
  if (begins && options_.errors != nullptr &&
      !options_.errors->take(options_.rank, without_line_end(piece))) {
    return;
  }
  if (begins && options_.last != nullptr) options_.last->add(piece);
  options_.sink->add((begins ? options_.prefix : "") + std::string(piece));
}

std::optional<int> terminal_columns() {
  if (const auto told = find(this_environment(), kColumnsVariable)) {
    const auto columns = parse_integer(*told);
    if (columns && *columns > 0 && *columns < 10000) {
      // What the launcher told is as old as the job, and the window may have become narrower. Not
      // wider: our terminal need not be the one that the launcher writes to.
      const FileDescriptor terminal(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
      const auto wide = static_cast<int>(*columns);
      return std::min(columns_of(terminal.get()).value_or(wide), wide);
    }
  }
  const std::optional<Place> place = place_from(this_environment());
  const bool through_mpirun = place && place->launcher == Launcher::kMpirun;
  if (through_mpirun || ::isatty(STDOUT_FILENO) != 1) return std::nullopt;
  constexpr int kUsual = 80;
  return columns_of(STDOUT_FILENO).value_or(kUsual);
}

}  // namespace daso
