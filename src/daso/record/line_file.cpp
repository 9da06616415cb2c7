// SPDX-License-Identifier: Apache-2.0
#include "daso/record/line_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

bool ends_within_a_line(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::ate | std::ios::binary);
  if (!file || file.tellg() <= 0) return false;
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

}  // namespace

LineFile::LineFile(const std::filesystem::path& path) : cut_(ends_within_a_line(path)) {
  file_.rdbuf()->pubsetbuf(nullptr, 0);
  file_.open(path, std::ios::app);
  require(file_.good(), "{}: cannot be opened for writing: {}", path.string(),
          std::strerror(errno));
}

bool LineFile::add(const std::string& line) {
  const char* separator = std::exchange(cut_, false) ? "\n" : "";
  file_ << fmt::format("{}{}\n", separator, line);
  if (file_.good()) return true;
  file_.clear();
  cut_ = true;
  return false;
}

}  // namespace daso
