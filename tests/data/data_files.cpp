// SPDX-License-Identifier: Apache-2.0
#include "data/data_files.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <iterator>

#include "daso/base/error.h"

namespace daso::test {

namespace fs = std::filesystem;

namespace {

// Labels and 3 x 32 x 32 values, of which the last tells it from others.
void append_record(Bytes& bytes, const Bytes& labels, std::uint8_t last) {
  bytes.insert(bytes.end(), labels.begin(), labels.end());
  const Bytes values = counting(3072);
  bytes.insert(bytes.end(), values.begin(), values.end());
  bytes.back() = last;
}

}  // namespace

DataFolder::DataFolder()
    : folder_(fs::temp_directory_path() /
              fmt::format("daso_data_{}_{}", ::getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name())) {
  fs::create_directories(folder_);
}

DataFolder::~DataFolder() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void write_file(const fs::path& path, const Bytes& bytes) {
  fs::remove(path);  // some file systems wait for the disk when a file is overwritten
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Bytes idx(const std::vector<std::uint32_t>& sizes, const Bytes& values) {
  Bytes bytes = {0, 0, 8, static_cast<std::uint8_t>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<std::uint8_t>(size >> shift));
    }
  }
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

Bytes counting(std::size_t bytes) {
  Bytes values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::uint8_t>(i);
  return values;
}

Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  Bytes packed(bytes.size() + 1024);
  Bytes input = bytes;
  stream.next_in = input.data();
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

void write_idx_folder(const fs::path& folder, const std::string& ending) {
  const auto write = [&](const std::string& name, const Bytes& bytes) {
    write_file(folder / (name + ending), ending.ends_with(".gz") ? gzip(bytes) : bytes);
  };
  write("train-images-idx3-ubyte", idx({6, 4, 5}, counting(120)));
  write("train-labels-idx1-ubyte", idx({6}, {0, 1, 2, 0, 1, 2}));
  write("t10k-images-idx3-ubyte", idx({3, 4, 5}, counting(60)));
  write("t10k-labels-idx1-ubyte", idx({3}, {2, 1, 0}));
}

void write_cifar_folder(const fs::path& folder, int records) {
  std::uint8_t record = 0;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    Bytes bytes;
    for (int i = 0; i < records; ++i, ++record) {
      append_record(bytes, {static_cast<std::uint8_t>(record % 10)}, record);
    }
    write_file(folder / name, bytes);
  }
}

void write_cifar100_folder(const fs::path& folder) {
  Bytes train;
  for (std::uint8_t record = 0; record < 6; ++record) {
    append_record(train, {record, static_cast<std::uint8_t>(99 - record)}, record);
  }
  write_file(folder / "train.bin", train);
  Bytes test;
  append_record(test, {19, 0}, 6);
  append_record(test, {0, 99}, 7);
  write_file(folder / "test.bin", test);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

}  // namespace daso::test
