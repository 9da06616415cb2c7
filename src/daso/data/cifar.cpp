// SPDX-License-Identifier: Apache-2.0
#include "daso/data/cifar.h"

#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/byte_reader.h"
#include "daso/data/folder.h"
#include "daso/data/stored_images.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr InputShape kShape = {.channels = 3, .height = 32, .width = 32};
constexpr std::size_t kRecordBytes = 1 + 3 * 32 * 32;
constexpr int kClasses = 10;

void append_file(Images& images, const fs::path& path) {
  const std::vector<std::uint8_t> bytes = ByteReader(path).take_rest();
  require(!bytes.empty() && bytes.size() % kRecordBytes == 0,
          "{}: {} bytes, expected a multiple of {} (a label and 3x32x32 values); the file is "
          "truncated or not of CIFAR-10",
          path.string(), bytes.size(), kRecordBytes);
  for (std::size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    const std::uint8_t label = bytes[at];
    require(label < kClasses, "{}: label {} of record {} is out of range: CIFAR-10 has 0 ... {}",
            path.string(), label, at / kRecordBytes, kClasses - 1);
    images.labels.push_back(label);
    const auto record = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    images.values.insert(images.values.end(), record + 1, record + kRecordBytes);
  }
}

std::shared_ptr<const Dataset> read_files(const fs::path& folder,
                                          const std::vector<std::string>& names) {
  Images images{.shape = kShape};
  for (const std::string& name : names) append_file(images, first_there(folder, {name}));
  return std::make_shared<StoredImages>(std::move(images), kClasses);
}

}  // namespace

Datasets open_cifar10(const fs::path& asked) {
  require_folder(asked, "cifar10:DIR");
  std::error_code problem;
  const fs::path inside = asked / "cifar-10-batches-bin";
  const fs::path folder = fs::is_directory(inside, problem) ? inside : asked;
  require(!fs::exists(folder / "data_batch_1", problem),
          "{}: holds the Python version of CIFAR-10; the binary version is needed "
          "(data_batch_1.bin ... data_batch_5.bin, test_batch.bin)",
          folder.string());
  std::vector<std::string> train;
  for (int number = 1; number <= 5; ++number) {
    train.push_back(fmt::format("data_batch_{}.bin", number));
  }
  return {.train = read_files(folder, train), .test = read_files(folder, {"test_batch.bin"})};
}

}  // namespace daso
