// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/tensor/large_tensor.h"
#include "daso/tensor/safetensors_header.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// In the order of the values: large elements first, so that each lies at a multiple of its size.
std::vector<const State::value_type*> in_file_order(const State& tensors) {
  std::vector<const State::value_type*> order;
  for (const State::value_type& entry : tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.element_size() > b->second.element_size();
  });
  return order;
}

void read_exactly(const FileDescriptor& file, const std::string& name, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, "{}: cannot be read: {}", name, std::strerror(errno));
    require(count > 0, "{}: ends early", name);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

// Other bytes than these are no values of a bool, and what they do is undefined.
bool only_zero_and_one(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one <= std::byte{1}; });
}

at::Tensor read_tensor(const FileDescriptor& file, const std::string& name,
                       const TensorEntry& entry) {
  const at::Tensor tensor = at::empty(entry.sizes, entry.type);
  DASO_ASSERT(tensor.nbytes() == entry.end - entry.begin);
  if (tensor.numel() == 0) return tensor;
  read_exactly(file, name, host_bytes(tensor));
  require(entry.type != at::kBool || only_zero_and_one(host_bytes(tensor)),
          "{}: tensor {} is of type BOOL and has values other than 0 and 1", name,
          quoted(entry.name));
  return tensor;
}

}  // namespace

void write_tensors(const fs::path& path, const State& tensors, const Metadata& metadata) {
  for (const auto& [name, tensor] : tensors) type_of(name, tensor);  // or it is refused
  const std::vector<const State::value_type*> order = in_file_order(tensors);
  std::vector<TensorEntry> entries;
  std::uint64_t offset = 0;
  for (const State::value_type* entry : order) {
    const auto& [name, tensor] = *entry;
    const std::uint64_t end = offset + tensor.nbytes();
    entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), offset, end});
    offset = end;
  }
  const std::string header = header_text(entries, metadata);
  const std::uint64_t length = header.size();

  OutputFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const State::value_type* entry : order) file.write(host_bytes(in_one_piece(entry->second)));
  file.publish();
}

TensorFile read_tensors(const fs::path& path) {
  const std::string name = path.string();
  const FileDescriptor file = open_file(path);
  const auto whole = static_cast<std::uint64_t>(file_bytes(path));

  std::uint64_t length = 0;
  require(whole >= sizeof length, "{}: is no safetensors file, it has {} bytes", name, whole);
  read_exactly(file, name, std::as_writable_bytes(std::span(&length, 1)));
  require(length <= kLargestHeader, "{}: is no safetensors file: its header would have {} bytes",
          name, length);
  require(length <= whole - sizeof length,
          "{}: is truncated: its header should have {} bytes, the file has {}", name, length,
          whole);
  std::string text(length, '\0');
  read_exactly(file, name, std::as_writable_bytes(std::span(text)));

  const FileHeader header = parse_header(name, text, whole - sizeof length - length);
  TensorFile result;
  result.metadata = header.metadata;
  for (const TensorEntry& entry : header.entries) {
    result.tensors.emplace(entry.name, read_tensor(file, name, entry));
  }
  return result;
}

}  // namespace daso
