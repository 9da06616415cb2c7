// SPDX-License-Identifier: Apache-2.0
#include "daso/base/paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "daso/base/error.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

fs::file_status status_of(const fs::path& path) {
  std::error_code problem;
  const fs::file_status status = fs::status(path, problem);
  // Where there is nothing that is an answer, not a problem.
  require(!problem || status.type() == fs::file_type::not_found, "{}: cannot be looked at: {}",
          path.string(), problem.message());
  return status;
}

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

bool is_there(const fs::path& path) { return fs::exists(status_of(path)); }
bool is_folder(const fs::path& path) { return fs::is_directory(status_of(path)); }
bool is_plain_file(const fs::path& path) { return fs::is_regular_file(status_of(path)); }

std::int64_t file_bytes(const fs::path& path) {
  std::error_code problem;
  const std::uintmax_t bytes = fs::file_size(path, problem);
  require(!problem, "{}: cannot be looked at: {}", path.string(), problem.message());
  return static_cast<std::int64_t>(bytes);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    names.push_back(at->path().filename().string());
  }
  require(!problem, "{}: cannot be read: {}", folder.string(), problem.message());
  std::ranges::sort(names);
  return names;
}

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  require(!problem, "{}: the folder cannot be made: {}", folder.string(), problem.message());
}

bool make_new_folder(const fs::path& folder) {
  constexpr mode_t kForAll = 0777;  // less what the user's mask takes away
  if (::mkdir(folder.c_str(), kForAll) == 0) return true;
  require(errno == EEXIST, "{}: the folder cannot be made: {}", folder.string(), reason());
  return false;
}

void remove_whole(const fs::path& path) {
  std::error_code problem;
  fs::remove_all(path, problem);
  require(!problem, "{}: cannot be removed: {}", path.string(), problem.message());
}

FileDescriptor open_file(const fs::path& path) {
  const fs::file_status status = status_of(path);
  require(fs::exists(status), "{}: there is no such file", path.string());
  require(!fs::is_directory(status), "{}: is a folder, not a file", path.string());
  require(fs::is_regular_file(status), "{}: is not a plain file", path.string());
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  require(file.open(), "{}: cannot be opened: {}", path.string(), reason());
  return file;
}

std::string read_file(const fs::path& path) {
  const FileDescriptor file = open_file(path);
  std::string bytes;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, "{}: cannot be read: {}", path.string(), reason());
    if (count == 0) return bytes;
    bytes.append(piece.data(), static_cast<std::size_t>(count));
  }
}

fs::path current_folder() {
  std::error_code problem;
  fs::path folder = fs::current_path(problem);
  require(!problem, "the current folder cannot be found: {}; change to one that is there",
          problem.message());
  return folder;
}

fs::path own_program() {
  std::error_code problem;
  fs::path program = fs::read_symlink("/proc/self/exe", problem);
  require(!problem, "/proc/self/exe: cannot be read: {}; mount /proc", problem.message());
  return program;
}

}  // namespace daso
