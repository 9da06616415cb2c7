// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace daso::cli {

// Text in columns of fixed width, so that a row can be printed before the next is known.
struct Column {
  std::string title;
  int width = 0;      // of the cells; a wider cell pushes the others, it is not cut
  bool left = false;  // where cells stand; right suits numbers
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  std::string header() const;
  // As many cells as there are columns.
  std::string row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

// Rows of two columns under a title, the second aligned:
//   title
//     name   value
std::string section(const std::string& title,
                    const std::vector<std::pair<std::string, std::string>>& rows);

// Seconds in the unit that suits them: 12.3 us, 4.56 ms, 7.89 s.
std::string format_seconds(double seconds);
// Bytes per second in units of 10^9: 1.234.
std::string format_gigabytes(double bytes_per_second);

}  // namespace daso::cli
