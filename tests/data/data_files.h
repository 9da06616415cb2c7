// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace daso::test {

using Bytes = std::vector<std::uint8_t>;

// A folder of its own for each test, gone afterwards.
class DataFolder : public testing::Test {
 protected:
  DataFolder();
  ~DataFolder() override;

  std::filesystem::path folder_;
};

void write_file(const std::filesystem::path& path, const Bytes& bytes);
Bytes read_file(const std::filesystem::path& path);

// The bytes of an IDX file of unsigned bytes.
Bytes idx(const std::vector<std::uint32_t>& sizes, const Bytes& values);
// 0, 1, 2 ... 255, 0 ...
Bytes counting(std::size_t bytes);
Bytes gzip(const Bytes& bytes);

// Four good files: 6 train images, 3 test images, of 4 x 5, labels 0, 1, 2, 0 ...; `ending` is
// added to the names, and .gz packs the contents.
void write_idx_folder(const std::filesystem::path& folder, const std::string& ending = "");
// Six good files: so many records in each, the label of record i of the whole is i % 10.
void write_cifar_folder(const std::filesystem::path& folder, int records = 2);
// Two good files: 6 records with the coarse labels 0 ... 5 and the fine ones 99 ... 94, and two to
// test with, of the fine labels 0 and 99.
void write_cifar100_folder(const std::filesystem::path& folder);

// What the ConfigError says that the call throws; a failed test if it throws none.
std::string refusal(const std::function<void()>& call);

}  // namespace daso::test
