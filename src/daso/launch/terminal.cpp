// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "daso/base/environment.h"
#include "daso/base/text.h"
#include "daso/launch/launch.h"

namespace daso {

std::optional<int> terminal_columns() {
  if (const auto told = find(this_environment(), kColumnsVariable)) {
    const auto columns = parse_integer(*told);
    if (columns && *columns > 0 && *columns < 10000) return static_cast<int>(*columns);
  }
  if (::isatty(STDOUT_FILENO) != 1) return std::nullopt;
  constexpr int kUsual = 80;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

}  // namespace daso
