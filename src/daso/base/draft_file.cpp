// SPDX-License-Identifier: Apache-2.0
#include "daso/base/draft_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr std::size_t kLargestWrite = std::size_t{1}
                                      << 30U;  // Linux takes less than 2 GB at a time
constexpr mode_t kReadableByAll = 0666;        // less the umask

std::filesystem::path draft_of(std::filesystem::path path) { return path += ".part"; }

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

DraftFile::DraftFile(std::filesystem::path path)
    : path_(std::move(path)),
      draft_(draft_of(path_)),
      file_(::open(draft_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kReadableByAll)) {
  require(file_.open(), "{}: cannot be opened for writing: {}", draft_.string(),
          std::strerror(errno));
}

DraftFile::~DraftFile() {
  if (file_.open()) ::unlink(draft_.c_str());
}

void DraftFile::write(std::span<const std::byte> bytes) {
  DASO_ASSERT(file_.open());
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_.get(), bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void DraftFile::publish() {
  DASO_ASSERT(file_.open());
  // Before the rename: else a crash could leave the name with no bytes behind it.
  if (::fsync(file_.get()) != 0) fail("cannot be synced to disk");
  if (::rename(draft_.c_str(), path_.c_str()) != 0) fail("cannot be renamed to its final name");
  file_.close();
  // The new name lasts once its folder is on disk, too. A file system that has no such thing says
  // EINVAL, which is all right.
  const FileDescriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.open() || (::fsync(folder.get()) != 0 && errno != EINVAL)) {
    fail("is there, but its folder cannot be synced to disk");
  }
}

void DraftFile::fail(const char* what) const {
  const int reason = errno;
  throw Error(fmt::format("{}: {}: {}", path_.string(), what, std::strerror(reason)));
}

}  // namespace daso
