// SPDX-License-Identifier: Apache-2.0
#include "daso/record/tensorboard.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <vector>

#include "daso/base/error.h"
#include "scratch_folder.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFirst = 2;  // records before the first value: version and start

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// By definition, one bit at a time, and masked as the format's description says.
std::uint32_t checksum_by_bits(const std::string& bytes) {
  std::uint32_t rest = 0xFFFFFFFF;
  for (const char byte : bytes) {
    rest ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest & 1U) != 0 ? (rest >> 1U) ^ 0x82F63B78U : rest >> 1U;
    }
  }
  rest = ~rest;
  return ((rest >> 15U) | (rest << 17U)) + 0xA282EAD8U;
}

template <typename Number>
Number number_at(const std::string& bytes, std::size_t place) {
  Number number;
  std::memcpy(&number, bytes.data() + place, sizeof(number));
  return number;
}

// The events in a file's records. Fails unless all are whole and have the right checksums.
std::vector<std::string> events_in(const fs::path& path) {
  const std::string bytes = text_in(path);
  std::vector<std::string> events;
  std::size_t place = 0;
  while (place < bytes.size()) {
    const std::size_t left = bytes.size() - place;
    const std::uint64_t length = left < 16 ? left : number_at<std::uint64_t>(bytes, place);
    if (left < 16 || left - 16 < length) {
      ADD_FAILURE() << "cut record at " << place;
      break;
    }
    EXPECT_EQ(number_at<std::uint32_t>(bytes, place + 8), checksum_by_bits(bytes.substr(place, 8)));
    events.push_back(bytes.substr(place + 12, length));
    EXPECT_EQ(number_at<std::uint32_t>(bytes, place + 12 + length),
              checksum_by_bits(events.back()));
    place += 16 + length;
  }
  return events;
}

// An event begins with its time: a key and 8 bytes.
std::string without_time(const std::string& event) {
  EXPECT_EQ(event.at(0), '\x09');
  return event.substr(9);
}

class TensorBoard : public testing::Test {
 protected:
  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST(Crc32c, IsThePublishedOneOfKnownBytes) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62A8AB43U);
  std::string counted(32, '\0');
  std::iota(counted.begin(), counted.end(), '\0');
  EXPECT_EQ(crc32c(bytes_of(counted)), 0x46DD794EU);
}

TEST_F(TensorBoard, FileHasTheNameThatTensorBoardLooksFor) {
  const TensorBoardFile file(folder_);
  EXPECT_EQ(file.path().parent_path(), folder_);
  EXPECT_TRUE(fs::exists(file.path()));
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents.1"));
}

TEST_F(TensorBoard, FileBeginsWithItsVersionAndTheFirstStep) {
  const TensorBoardFile file(folder_, /*first_step=*/300);
  const std::vector<std::string> events = events_in(file.path());
  ASSERT_EQ(events.size(), kFirst);
  EXPECT_EQ(without_time(events[0]),
            "\x1a\x0d"
            "brain.Event:2");
  EXPECT_EQ(without_time(events[1]),
            "\x10\xac\x02"
            "\x3a\x02\x08\x01");  // 300, then START
}

TEST_F(TensorBoard, ScalarHasTheBytesOfItsMessage) {
  TensorBoardFile file(folder_);
  file.scalar("ab", 3, 0.5);
  file.scalar("ab", -1, 0);
  file.flush();
  const std::vector<std::string> events = events_in(file.path());
  ASSERT_EQ(events.size(), kFirst + 2);
  using std::string_literals::operator""s;
  EXPECT_EQ(without_time(events[kFirst]),
            "\x10\x03\x2a\x0b\x0a\x09"  // step; summary of 11 bytes; value of 9
            "\x15\x00\x00\x00\x3f"      // simple_value: 0.5f
            "\x0a\x02"
            "ab"s);  // tag
  EXPECT_EQ(without_time(events[kFirst + 1]),
            "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
            "\x2a\x0b\x0a\x09\x15\x00\x00\x00\x00\x0a\x02"
            "ab"s);
}

TEST_F(TensorBoard, HistogramOfNothingFiniteWritesNothing) {
  TensorBoardFile file(folder_);
  file.histogram("weights", 0, {});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  file.histogram("weights", 1, std::vector<float>{NAN, kInfinity, -kInfinity});
  file.flush();
  EXPECT_EQ(events_in(file.path()).size(), kFirst);
}

TEST_F(TensorBoard, FileIsWholeWhileItGrows) {
  TensorBoardFile file(folder_);
  std::size_t seen = kFirst;
  for (std::int64_t step = 0; step < 5000; ++step) {
    file.scalar("loss", step, 1);
    if (step % 500 != 499) continue;
    const std::size_t events = events_in(file.path()).size();  // without a flush
    EXPECT_GE(events, seen);
    seen = events;
  }
  EXPECT_GT(seen, 3000U);  // what has gathered does not wait for ever
  file.flush();
  EXPECT_EQ(events_in(file.path()).size(), kFirst + 5000);
}

TEST_F(TensorBoard, FileThatGoesOutOfScopeHasEverything) {
  fs::path path;
  {
    TensorBoardFile file(folder_);
    file.scalar("loss", 0, 1);
    path = file.path();
  }
  EXPECT_EQ(events_in(path).size(), kFirst + 1);
}

TEST_F(TensorBoard, FileThatCannotBeWrittenIsRefusedByName) {
  try {
    const TensorBoardFile file(folder_ / "missing");
    FAIL() << "was made";
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find((folder_ / "missing/events.out.tfevents").string()), std::string::npos);
    EXPECT_NE(message.find("No such file"), std::string::npos) << message;
  }
}

// A limit on the size of files does what a full disk does.
TEST_F(TensorBoard, FileGoesOnWithWholeRecordsWhenThereIsRoomAgain) {
  TensorBoardFile file(folder_);
  for (std::int64_t step = 0; step < 100; ++step) file.scalar("loss", step, 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1001, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(file.flush(), Error);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(fs::file_size(file.path()), 1001U);
  file.flush();
  EXPECT_EQ(events_in(file.path()).size(), kFirst + 100);
}

// tensorboard_read_test.py reads these files with TensorBoard's own code; it names the folder.
TEST_F(TensorBoard, ResumedRunWritesASecondFile) {
  const char* wanted = std::getenv("DASO_TENSORBOARD_FOLDER");
  const fs::path folder = wanted == nullptr ? folder_ : fs::path(wanted);
  const fs::path older = folder / "events.out.tfevents.1700000000.elsewhere";
  {
    TensorBoardFile file(folder);
    for (std::int64_t step = 0; step < 10; ++step) file.scalar("killed/loss", step, 100);
    file.flush();
    fs::rename(file.path(), older);
  }
  EXPECT_EQ(events_in(older).size(), kFirst + 10);

  TensorBoardFile file(folder, /*first_step=*/6);
  for (std::int64_t step = 6; step < 10; ++step) file.scalar("killed/loss", step, 1);
  for (std::int64_t step = 0; step < 200; ++step) {
    file.scalar("loss", 10 * step, 1.0 / static_cast<double>(1 + step));
  }
  file.scalar("step/beyond 32 bits ü", std::int64_t{1} << 40U, -0.25);
  file.scalar("not a number", 1, NAN);
  std::vector<float> values(1001);  // -5, -4.99 ... 5
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(i) / 100 - 5);
  }
  file.histogram("weights", 7, values);
  file.histogram("weights", 8, std::vector<float>(3, -2.5F));
  file.histogram("weights", 9, std::vector<float>{0, NAN, 3e38F, -3e38F});
  file.flush();
  EXPECT_EQ(events_in(file.path()).size(), kFirst + 4 + 200 + 2 + 3);
}

}  // namespace
}  // namespace daso
