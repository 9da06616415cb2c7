// SPDX-License-Identifier: Apache-2.0
#include "daso/base/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "daso/base/error.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Paths : public testing::Test {
 protected:
  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(Paths, AreThereOrNot) {
  std::ofstream(folder_ / "file") << "text";
  fs::create_symlink("file", folder_ / "link");
  fs::create_symlink("nothing", folder_ / "lost");
  EXPECT_TRUE(is_there(folder_) && is_folder(folder_) && !is_plain_file(folder_));
  for (const char* name : {"file", "link"}) {
    EXPECT_TRUE(is_there(folder_ / name) && is_plain_file(folder_ / name)) << name;
    EXPECT_EQ(read_file(folder_ / name), "text");
  }
  for (const char* name : {"none", "lost", "file/below"}) {
    EXPECT_FALSE(is_there(folder_ / name)) << name;
    EXPECT_FALSE(is_folder(folder_ / name)) << name;
  }
}

TEST_F(Paths, OfNewFoldersAreGivenAwayOnce) {
  EXPECT_TRUE(make_new_folder(folder_ / "new"));
  EXPECT_TRUE(is_folder(folder_ / "new"));
  EXPECT_FALSE(make_new_folder(folder_ / "new"));
  EXPECT_THAT(refusal([&] { make_new_folder(folder_ / "none" / "new"); }),
              HasSubstr("the folder cannot be made: No such file"));
}

TEST_F(Paths, ThatCannotBeLookedAtAreNamedWithTheReason) {
  const fs::path circle = folder_ / "circle";
  fs::create_symlink("circle", circle);
  EXPECT_EQ(refusal([&] { is_there(circle); }),
            circle.string() + ": cannot be looked at: Too many levels of symbolic links");
  const fs::path endless = folder_ / std::string(300, 'n');
  EXPECT_EQ(refusal([&] { is_folder(endless); }),
            endless.string() + ": cannot be looked at: File name too long");
  EXPECT_THAT(refusal([&] { make_folder(endless); }), HasSubstr("File name too long"));
  EXPECT_THAT(refusal([&] { names_in(folder_ / "none"); }), HasSubstr("No such file"));
}

TEST_F(Paths, WithoutPermissionAreNamedWithTheReason) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may do everything";
  fs::create_directories(folder_ / "locked" / "inside");
  fs::permissions(folder_ / "locked", fs::perms::none);
  EXPECT_THAT(refusal([&] { is_there(folder_ / "locked" / "inside"); }),
              HasSubstr("locked/inside: cannot be looked at: Permission denied"));
  EXPECT_THAT(refusal([&] { names_in(folder_ / "locked"); }),
              HasSubstr("locked: cannot be read: Permission denied"));
  EXPECT_THAT(refusal([&] { make_folder(folder_ / "locked" / "new"); }),
              HasSubstr("locked/new: the folder cannot be made: Permission denied"));
  fs::permissions(folder_ / "locked", fs::perms::owner_all);
}

// A pipe that nobody writes to would be waited for without end.
TEST_F(Paths, ThatAreNoPlainFilesAreNotRead) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal([&] { read_file(pipe); }), pipe.string() + ": is not a plain file");
  EXPECT_EQ(refusal([&] { read_file("/dev/zero"); }), "/dev/zero: is not a plain file");
  EXPECT_EQ(refusal([&] { read_file(folder_); }), folder_.string() + ": is a folder, not a file");
  EXPECT_EQ(refusal([&] { read_file(folder_ / "none"); }),
            (folder_ / "none").string() + ": there is no such file");
}

TEST_F(Paths, AreReadWhole) {
  std::string bytes(200'000, 'x');
  bytes[7] = '\0';
  std::ofstream(folder_ / "file", std::ios::binary) << bytes;
  EXPECT_EQ(read_file(folder_ / "file"), bytes);
  EXPECT_EQ(file_bytes(folder_ / "file"), 200'000);
}

TEST_F(Paths, AreRemovedWithAllThatIsInThem) {
  make_folder(folder_ / "a" / "b");
  make_folder(folder_ / "a" / "b");  // is there already
  std::ofstream(folder_ / "a" / "b" / "file") << "text";
  EXPECT_EQ(names_in(folder_ / "a"), std::vector<std::string>{"b"});
  remove_whole(folder_ / "a");
  remove_whole(folder_ / "a");  // is gone already
  EXPECT_FALSE(is_there(folder_ / "a"));
}

}  // namespace
}  // namespace daso::test
