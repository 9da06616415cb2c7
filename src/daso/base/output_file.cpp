// SPDX-License-Identifier: Apache-2.0
#include "daso/base/output_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "daso/base/error.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestWrite = std::size_t{1}
                                      << 30U;  // Linux takes less than 2 GB at a time
constexpr mode_t kReadableByAll = 0666;        // less the umask
constexpr mode_t kPermissions = 07777;
constexpr int kMostLinks = 40;  // as many as Linux follows
constexpr Seconds kBetweenLooks{0.01};

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

std::optional<struct stat> stat_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

bool is_in_proc(const fs::path& path) {
  struct statfs system {};
  return ::statfs(folder_of(path).c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

// The file that links at the path mean. A link of /proc stands for what a process has open, as
// /dev/stdout does; it is the end of the way, for what it says need not be a path.
fs::path followed(fs::path path) {
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(path, error)) || is_in_proc(path)) break;
    const fs::path next = fs::read_symlink(path, error);
    if (error) break;
    path = next.is_absolute() ? next : folder_of(path) / next;
  }
  return path;
}

// Beside the target. Its name may be as long as names can be.
fs::path draft_beside(const fs::path& target) {
  constexpr std::size_t kLongest = 200;  // of at most 255 bytes
  const std::string name = target.filename().string().substr(0, kLongest);
  return folder_of(target) / fmt::format("{}.{:08x}.part", name, std::random_device{}());
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISBLK(mode)) return "a disk";
  return "no file";
}

bool is_link(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(fs::symlink_status(path, error));
}

}  // namespace

OutputFile::OutputFile(fs::path path, Seconds reader_limit)
    : path_(std::move(path)), target_(followed(path_)) {
  require(!path_.empty(), "the name of a file to write is empty; give one");
  const std::optional<struct stat> before = stat_of(path_);
  require(before || errno != ENAMETOOLONG, "{}: cannot be written: {}", path_.string(),
          std::strerror(ENAMETOOLONG));
  require(before || !is_link(path_),
          "{}: is a link to {}, which is not there; remove the link, or name the file to write",
          path_.string(), target_.string());
  const bool is_open_file = before && S_ISREG(before->st_mode) && is_link(target_);  // /dev/fd/N
  if (before && (S_ISCHR(before->st_mode) || S_ISFIFO(before->st_mode) || is_open_file)) {
    open_stream(reader_limit);
    return;
  }
  require(!before || S_ISREG(before->st_mode), "{}: is {}; name the file to write", path_.string(),
          before ? kind_of(before->st_mode) : "");
  // Its folder would let us replace it all the same.
  const bool writable = !before || ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) == 0;
  require(writable, "{}: cannot be opened for writing: {}", path_.string(), std::strerror(errno));
  open_draft();
  if (!before) return;
  // Only root may give files away; the permissions are ours to set in any case.
  static_cast<void>(!::fchown(file_.get(), before->st_uid, before->st_gid));
  static_cast<void>(::fchmod(file_.get(), before->st_mode & kPermissions));
}

// Under a name that nothing has: a file, or a link to one, that is there already is somebody's.
void OutputFile::open_draft() {
  do {
    draft_ = draft_beside(target_);
    file_ = FileDescriptor(::open(
        draft_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kReadableByAll));
  } while (!file_.open() && errno == EEXIST);
  require(file_.open(), "{}: cannot be written: no file can be made in {}: {}", path_.string(),
          folder_of(target_).string(), std::strerror(errno));
}

void OutputFile::open_stream(Seconds reader_limit) {
  // A named pipe that nobody reads says ENXIO; without O_NONBLOCK opening it would wait for ever.
  const Deadline deadline(reader_limit);
  for (;;) {
    file_ = FileDescriptor(
        ::open(path_.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (file_.open() || errno != ENXIO || deadline.passed()) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  require(file_.open() || errno != ENXIO, "{}: nobody reads this pipe within {} s", path_.string(),
          reader_limit.count());
  require(file_.open(), "{}: cannot be opened for writing: {}", path_.string(),
          std::strerror(errno));
  const int flags = ::fcntl(file_.get(), F_GETFL);
  if (::fcntl(file_.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) fail("cannot be waited for");
}

OutputFile::~OutputFile() {
  if (file_.open() && !draft_.empty()) ::unlink(draft_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  DASO_ASSERT(file_.open());
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_.get(), bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void OutputFile::publish() {
  DASO_ASSERT(file_.open());
  if (draft_.empty()) return file_.close();
  // Before the rename: else a crash could leave the name with no bytes behind it.
  if (::fsync(file_.get()) != 0) fail("cannot be synced to disk");
  rename_draft();
  // The new name lasts once its folder is on disk, too. A file system that has no such thing says
  // EINVAL, which is all right.
  const FileDescriptor folder(
      ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.open() || (::fsync(folder.get()) != 0 && errno != EINVAL)) {
    fail("is there, but its folder cannot be synced to disk");
  }
}

void OutputFile::publish_unsynced() {
  DASO_ASSERT(file_.open());
  if (draft_.empty()) return file_.close();
  rename_draft();
}

void OutputFile::rename_draft() {
  if (::rename(draft_.c_str(), target_.c_str()) != 0) fail("cannot be renamed to its final name");
  file_.close();
}

void OutputFile::fail(const char* what) const {
  const int reason = errno;
  throw Error(fmt::format("{}: {}: {}", path_.string(), what, std::strerror(reason)));
}

void write_file(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.publish();
}

void write_file_unsynced(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.publish_unsynced();
}

}  // namespace daso
