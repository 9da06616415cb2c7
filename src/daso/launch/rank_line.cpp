// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/rank_line.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace daso {

RankLine::RankLine(FileDescriptor socket) : socket_(std::move(socket)) {
  ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
}

std::vector<std::string> RankLine::read() {
  std::vector<std::string> lines;
  std::array<char, 4096> bytes{};
  while (socket_.open()) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      socket_.close();
      break;
    }
    text_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos;) {
    lines.push_back(text_.substr(0, end));
    text_.erase(0, end + 1);
  }
  return lines;
}

void RankLine::say(const std::string& line) {
  if (!socket_.open()) return;
  const std::string text = line + "\n";
  const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(text.size())) socket_.close();
}

}  // namespace daso
