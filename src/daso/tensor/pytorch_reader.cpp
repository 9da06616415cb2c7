// SPDX-License-Identifier: Apache-2.0
// The other direction of pytorch_file.cpp: archive and pickle are read without LibTorch's own
// reader, which executes more than a state_dict needs.
#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/tensor/byte_cursor.h"
#include "daso/tensor/large_tensor.h"
#include "daso/tensor/pickle_reader.h"
#include "daso/tensor/pytorch_file.h"
#include "daso/tensor/safetensors_header.h"
#include "daso/tensor/zip_archive.h"

namespace daso {
namespace {

constexpr std::string_view kZip("PK\x03\x04", 4);
// The number with which files of torch before 1.6 begin, as a pickle.
constexpr std::string_view kOldFormat("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
                                      14);
// A state_dict of 100,000 tensors takes less, and values in memory take more than their words.
constexpr std::uint64_t kLargestPickle = 16'000'000;

std::string first_bytes(const std::filesystem::path& path, std::size_t number) {
  const auto whole = static_cast<std::size_t>(file_bytes(path));
  std::string bytes(std::min(number, whole), '\0');
  read_at(open_file(path), path.string(), 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string text_of(const ZipArchive& archive, const ZipRecord& record) {
  std::string text(record.bytes, '\0');
  archive.read(record, std::as_writable_bytes(std::span(text)));
  return text;
}

// All records lie in one folder, whose name is that of the file when it was written.
std::string folder_of(const ZipArchive& archive, const std::string& file) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const ZipRecord& record : archive.records()) {
    require(!record.name.ends_with("/constants.pkl"),
            "{}: is a TorchScript archive, which holds code; "
            "torch.save(model.state_dict(), FILE) writes what can be read",
            file);
  }
  for (const ZipRecord& record : archive.records()) {
    const std::string_view name = record.name;
    const std::size_t end = name.find('/');
    if (end != std::string_view::npos && name.substr(end) == kPickle) {
      return std::string(name.substr(0, end + 1));
    }
  }
  throw ConfigError(
      fmt::format("{}: is a ZIP archive without data.pkl: torch.save did not write "
                  "it",
                  file));
}

// The storages of an archive; one that several tensors show parts of is read once.
class Storages {
 public:
  Storages(const ZipArchive& archive, std::string folder, const std::string& file)
      : archive_(archive), folder_(std::move(folder)), file_(file) {}

  at::Tensor of(const std::string& name, const PickledTensor& tensor) {
    const auto found = read_.find(tensor.storage);
    if (found == read_.end()) {
      return read_.emplace(tensor.storage, read(name, tensor)).first->second;
    }
    require(found->second.scalar_type() == tensor.type &&
                found->second.numel() == tensor.storage_elements,
            "{}: tensor {} has a storage that another one takes for something else", file_,
            quoted(name));
    return found->second;
  }

 private:
  at::Tensor read(const std::string& name, const PickledTensor& tensor) const {
    const ZipRecord* const record = archive_.find(folder_ + "data/" + tensor.storage);
    require(record != nullptr, "{}: the values of tensor {} are missing", file_, quoted(name));
    const auto element = static_cast<std::uint64_t>(c10::elementSize(tensor.type));
    require(record->bytes % element == 0 &&
                record->bytes / element == static_cast<std::uint64_t>(tensor.storage_elements),
            "{}: the values of tensor {} have {} bytes, and {} elements of {} need others", file_,
            quoted(name), record->bytes, tensor.storage_elements, c10::toString(tensor.type));
    const at::Tensor values = at::empty({tensor.storage_elements}, tensor.type);
    if (values.numel() > 0) archive_.read(*record, host_bytes(values));
    require_values(file_, name, values);
    return values;
  }

  const ZipArchive& archive_;
  const std::string folder_;
  const std::string& file_;
  std::map<std::string, at::Tensor> read_;
};

}  // namespace

bool is_pytorch(const std::filesystem::path& path) {
  const std::string begin = first_bytes(path, kOldFormat.size());
  return begin.starts_with(kZip) || begin == kOldFormat;
}

State read_pytorch(const std::filesystem::path& path) {
  const std::string file = path.string();
  require(first_bytes(path, kOldFormat.size()) != kOldFormat,
          "{}: is in the format of torch before 1.6; torch.save(torch.load(FILE), FILE) with a "
          "later one makes it readable",
          file);
  const ZipArchive archive(path);
  const std::string folder = folder_of(archive, file);
  if (const ZipRecord* const order = archive.find(folder + "byteorder")) {
    require(order->bytes < 16 && text_of(archive, *order) == "little",
            "{}: was written on a machine whose numbers have their highest byte first; only those "
            "with the lowest first can be read",
            file);
  }
  const ZipRecord* const pickle = archive.find(folder + "data.pkl");
  require(pickle != nullptr && pickle->bytes <= kLargestPickle,
          "{}: its data.pkl is too large for a state_dict: {} bytes, and {} are the most", file,
          pickle == nullptr ? 0 : pickle->bytes, kLargestPickle);
  Storages storages(archive, folder, file);
  State tensors;
  for (const auto& [name, tensor] : read_pickle(text_of(archive, *pickle), file)) {
    const bool empty = std::find(tensor.sizes.begin(), tensor.sizes.end(), 0) != tensor.sizes.end();
    tensors[name] = empty ? at::empty(tensor.sizes, tensor.type)
                          : storages.of(name, tensor)
                                .as_strided(tensor.sizes, tensor.strides, tensor.offset)
                                .clone(at::MemoryFormat::Contiguous);
  }
  return tensors;
}

}  // namespace daso
