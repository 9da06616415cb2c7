// SPDX-License-Identifier: Apache-2.0
#include "daso/base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "daso/base/error.h"
#include "scratch_folder.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The message of the ConfigError that writing there must throw.
std::string refusal(const fs::path& path) {
  try {
    write_file(path, "new");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

class Output : public testing::Test {
 protected:
  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
  const fs::path path_ = folder_ / "weights";
  // That are in the folder: drafts are among them.
  int files() const { return static_cast<int>(std::distance(fs::directory_iterator(folder_), {})); }
};

TEST_F(Output, AppearsUnderItsNameOnlyWhenPublished) {
  OutputFile file(path_);
  file.write(bytes_of("first "));
  file.write(bytes_of("second"));
  EXPECT_FALSE(fs::exists(path_));
  file.publish();
  EXPECT_EQ(text_in(path_), "first second");
  EXPECT_EQ(files(), 1);
}

TEST_F(Output, ThatIsNotPublishedLeavesThePreviousFile) {
  std::ofstream(path_) << "previous";
  {
    OutputFile file(path_);
    file.write(bytes_of("half of the ne"));
    EXPECT_EQ(text_in(path_), "previous");
  }
  EXPECT_EQ(text_in(path_), "previous");
  EXPECT_EQ(files(), 1);
}

// A link under the name that drafts once had led the bytes to what it means, and a file was lost.
TEST_F(Output, LeavesWhatEndsInPart) {
  std::ofstream(folder_ / "other") << "other";
  fs::create_symlink("other", folder_ / "weights.part");
  std::ofstream(folder_ / "tensors.part") << "mine";
  write_file(path_, "new");
  write_file(folder_ / "tensors", "new");
  EXPECT_EQ(text_in(folder_ / "other"), "other");
  EXPECT_TRUE(fs::is_symlink(folder_ / "weights.part"));
  EXPECT_EQ(text_in(folder_ / "tensors.part"), "mine");
  EXPECT_EQ(text_in(path_), "new");
  EXPECT_FALSE(fs::is_symlink(path_));
}

TEST_F(Output, OfTwoWritersIsThatOfTheLastWhole) {
  OutputFile first(path_);
  OutputFile second(path_);
  first.write("first, and ");
  second.write("second");
  first.write("longer");
  first.publish();
  EXPECT_EQ(text_in(path_), "first, and longer");
  second.publish();
  EXPECT_EQ(text_in(path_), "second");
  EXPECT_EQ(files(), 1);
}

TEST_F(Output, MayHaveTheLongestNameThatThereIs) {
  const fs::path longest = folder_ / std::string(255, 'n');
  write_file(longest, "new");
  EXPECT_EQ(text_in(longest), "new");
}

TEST_F(Output, WithANameThatNoFileCanHaveIsRefused) {
  const fs::path longer = folder_ / std::string(256, 'n');
  EXPECT_EQ(refusal(longer),
            fmt::format("{}: cannot be written: File name too long", longer.string()));
  EXPECT_EQ(refusal(""), "the name of a file to write is empty; give one");
  EXPECT_EQ(files(), 0);
}

// A limit on the size of files does what a full disk does.
TEST_F(Output, ThatFindsNoRoomNamesTheFileAndLeavesThePreviousOne) {
  std::ofstream(path_) << "previous";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    OutputFile file(path_);
    file.write(bytes_of(std::string(10000, 'x')));
  } catch (const Error& error) {
    message = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(message.find(path_.string() + ": cannot be written: "), std::string::npos) << message;
  EXPECT_EQ(text_in(path_), "previous");
  EXPECT_EQ(files(), 1);
}

TEST_F(Output, CannotBeMadeWhereThereIsNoFolder) {
  EXPECT_EQ(
      refusal(folder_ / "missing" / "weights"),
      fmt::format("{0}/missing/weights: cannot be written: no file can be made in {0}/missing: "
                  "No such file or directory",
                  folder_.string()));
}

TEST_F(Output, KeepsThePermissionsOfTheFileBefore) {
  std::ofstream(path_) << "previous";
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  write_file(path_, "new");
  EXPECT_EQ(text_in(path_), "new");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Output, ThroughALinkReplacesTheFileThatItMeans) {
  fs::create_directories(folder_ / "far");
  std::ofstream(folder_ / "far" / "file") << "previous";
  fs::create_symlink("far/file", folder_ / "middle");
  fs::create_symlink(folder_ / "middle", path_);
  {
    OutputFile file(path_);
    file.write("half");
    EXPECT_EQ(text_in(folder_ / "far" / "file"), "previous");
  }
  write_file(path_, "new");
  EXPECT_EQ(text_in(folder_ / "far" / "file"), "new");
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_TRUE(fs::is_symlink(folder_ / "middle"));
}

TEST_F(Output, RefusesALinkThatLeadsNowhere) {
  fs::create_symlink("nothing", path_);
  EXPECT_NE(refusal(path_).find("is a link to"), std::string::npos) << refusal(path_);
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_FALSE(fs::exists(folder_ / "nothing"));
  fs::remove(path_);
  fs::create_symlink("weights", path_);
  EXPECT_NE(refusal(path_), "");
}

TEST_F(Output, RefusesAFolderAndASocket) {
  fs::create_directories(path_);
  EXPECT_EQ(refusal(path_), path_.string() + ": is a folder; name the file to write");
  fs::remove(path_);
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(refusal(path_), path_.string() + ": is a socket; name the file to write");
  EXPECT_TRUE(fs::is_socket(path_));
}

TEST_F(Output, WritesThroughADeviceAndLeavesIt) {
  constexpr dev_t kNull = (1U << 8U) | 3U;  // major 1, minor 3, as /dev/null has
  if (::mknod(path_.c_str(), S_IFCHR | 0666, kNull) != 0) GTEST_SKIP() << "only root makes devices";
  try {
    write_file(path_, "gone");
    write_file_unsynced(path_, "gone");
  } catch (const ConfigError&) {
    GTEST_SKIP() << "devices do not work in " << folder_;  // mounted so
  }
  EXPECT_TRUE(fs::is_character_file(path_));
  EXPECT_EQ(files(), 1);
}

TEST_F(Output, GoesToWhoeverReadsAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = text_in(path_); });
  write_file(path_, "through");
  reader.join();
  EXPECT_EQ(read, "through");
  EXPECT_TRUE(fs::is_fifo(path_));
}

TEST_F(Output, DoesNotWaitForEverForSomebodyToReadAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  try {
    OutputFile file(path_, Seconds(0.05));
    ADD_FAILURE() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("nobody reads this pipe"), std::string::npos);
  }
}

TEST_F(Output, GoesToAnOpenFileThroughItsNumber) {
  const FileDescriptor open(::open(path_.c_str(), O_WRONLY | O_CREAT, 0600));
  struct stat before {};
  ASSERT_EQ(::fstat(open.get(), &before), 0);
  write_file("/dev/fd/" + std::to_string(open.get()), "same file");
  struct stat after {};
  ASSERT_EQ(::stat(path_.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(text_in(path_), "same file");
}

}  // namespace
}  // namespace daso
