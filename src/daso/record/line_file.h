// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace daso {

// A file that grows line by line. A line is one write: readers see it whole, and a crash leaves
// whole lines. One thread at a time.
class LineFile {
 public:
  // Adds to what is there. Throws ConfigError if it cannot be opened.
  explicit LineFile(const std::filesystem::path& path);

  // `line` has no end. False: the disk does not take it, and nothing of it is tried again.
  bool add(const std::string& line);

 private:
  std::ofstream file_;
  bool cut_ = false;  // the last line may be half of one
};

}  // namespace daso
