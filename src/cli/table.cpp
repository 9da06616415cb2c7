// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <algorithm>

#include "daso/base/error.h"

namespace daso::cli {

std::string Table::header() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  return row(titles);
}

std::string Table::row(const std::vector<std::string>& cells) const {
  DASO_ASSERT(cells.size() == columns_.size());
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Column& column = columns_[i];
    const int width = std::max(column.width, static_cast<int>(column.title.size()));
    if (i > 0) line += "  ";
    line += column.left ? fmt::format("{:<{}}", cells[i], width)
                        : fmt::format("{:>{}}", cells[i], width);
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string section(const std::string& title,
                    const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::string text = title + "\n";
  for (const auto& [name, value] : rows) text += fmt::format("  {:<{}}  {}\n", name, width, value);
  return text;
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string format_gigabytes(double bytes_per_second) {
  return fmt::format("{:.3f}", bytes_per_second / 1e9);
}

}  // namespace daso::cli
