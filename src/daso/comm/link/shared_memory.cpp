// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <random>
#include <utility>

namespace daso {
namespace {

std::string random_name() {
  std::random_device random;
  return fmt::format("/daso-{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// Not ftruncate alone: on a full file system that succeeds, and the first write would then be
// answered by SIGBUS. A file above the user's limit is answered by a signal, too.
bool fill(const FileDescriptor& file, std::size_t bytes) {
  struct rlimit most {};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || bytes > most.rlim_cur) return false;
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  return error == 0;
}

struct flock lock_of(int rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

std::optional<SharedMemory> SharedMemory::create(std::size_t bytes) {
  std::string name = random_name();
  FileDescriptor file(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR));
  if (!file.open()) return std::nullopt;
  // From here on the object takes the name away again.
  SharedMemory memory(std::move(file), {}, std::move(name), /*named=*/true);
  if (!fill(memory.file_, bytes)) return std::nullopt;
  auto mapped = map(std::move(memory.file_), bytes, memory.name_);
  if (mapped) mapped->named_ = std::exchange(memory.named_, false);
  return mapped;
}

std::optional<SharedMemory> SharedMemory::attach(const std::string& name, std::size_t bytes) {
  FileDescriptor file(::shm_open(name.c_str(), O_RDWR, 0));
  struct stat found {};
  if (!file.open() || ::fstat(file.get(), &found) != 0 ||
      found.st_size != static_cast<off_t>(bytes)) {
    return std::nullopt;
  }
  return map(std::move(file), bytes, name);
}

std::optional<SharedMemory> SharedMemory::map(FileDescriptor file, std::size_t bytes,
                                              std::string name) {
  void* start =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (start == MAP_FAILED) return std::nullopt;
  return SharedMemory(std::move(file), {static_cast<std::byte*>(start), bytes}, std::move(name),
                      /*named=*/false);
}

SharedMemory::SharedMemory(FileDescriptor file, std::span<std::byte> bytes, std::string name,
                           bool named)
    : file_(std::move(file)), bytes_(bytes), name_(std::move(name)), named_(named) {}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)),
      bytes_(std::exchange(other.bytes_, {})),
      name_(std::move(other.name_)),
      named_(std::exchange(other.named_, false)) {}

SharedMemory::~SharedMemory() {
  unname();
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

void SharedMemory::unname() {
  if (std::exchange(named_, false)) ::shm_unlink(name_.c_str());
}

// The lock belongs to this open file, not to the process: so it tells apart ranks that are threads
// of one.
bool SharedMemory::sign(int rank) {
  const struct flock lock = lock_of(rank);
  return ::fcntl(file_.get(), F_OFD_SETLK, &lock) == 0;
}

bool SharedMemory::has_signed(int rank) const {
  struct flock lock = lock_of(rank);
  // Where the kernel cannot say, nobody is called dead.
  return ::fcntl(file_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace daso
