// SPDX-License-Identifier: Apache-2.0
#include "daso/base/draft_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <string>

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

class Draft : public testing::Test {
 protected:
  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
  const fs::path path_ = folder_ / "weights";
  const fs::path draft_ = folder_ / "weights.part";
};

TEST_F(Draft, AppearsUnderItsNameOnlyWhenPublished) {
  DraftFile file(path_);
  file.write(bytes_of("first "));
  file.write(bytes_of("second"));
  EXPECT_FALSE(fs::exists(path_));
  file.publish();
  EXPECT_EQ(text_in(path_), "first second");
  EXPECT_FALSE(fs::exists(draft_));
}

TEST_F(Draft, ThatIsNotPublishedLeavesThePreviousFile) {
  std::ofstream(path_) << "previous";
  {
    DraftFile file(path_);
    file.write(bytes_of("half of the ne"));
    EXPECT_EQ(text_in(path_), "previous");
  }
  EXPECT_EQ(text_in(path_), "previous");
  EXPECT_FALSE(fs::exists(draft_));
}

TEST_F(Draft, OverwritesWhatACrashLeftOver) {
  std::ofstream(draft_) << "a long draft of somebody who died";
  DraftFile file(path_);
  file.write(bytes_of("short"));
  file.publish();
  EXPECT_EQ(text_in(path_), "short");
}

// A limit on the size of files does what a full disk does.
TEST_F(Draft, ThatFindsNoRoomNamesTheFileAndLeavesThePreviousOne) {
  std::ofstream(path_) << "previous";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    DraftFile file(path_);
    file.write(bytes_of(std::string(10000, 'x')));
  } catch (const Error& error) {
    message = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(message.find(path_.string() + ": cannot be written: "), std::string::npos) << message;
  EXPECT_EQ(text_in(path_), "previous");
  EXPECT_FALSE(fs::exists(draft_));
}

TEST_F(Draft, CannotBeMadeWhereThereIsNoFolder) {
  EXPECT_THROW(DraftFile(folder_ / "missing" / "weights"), ConfigError);
}

TEST_F(Draft, CannotTakeTheNameOfAFolder) {
  fs::create_directories(path_ / "full");
  DraftFile file(path_);
  EXPECT_THROW(file.publish(), Error);
}

}  // namespace
}  // namespace daso
