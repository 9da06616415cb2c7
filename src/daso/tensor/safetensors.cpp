// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/tensor/byte_cursor.h"
#include "daso/tensor/large_tensor.h"
#include "daso/tensor/safetensors_header.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

// In the order of the values: large elements first, so that each lies at a multiple of its size.
std::vector<const State::value_type*> in_file_order(const State& tensors) {
  std::vector<const State::value_type*> order;
  for (const State::value_type& entry : tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.element_size() > b->second.element_size();
  });
  return order;
}

// Its values begin at the file's byte `begin`.
at::Tensor read_tensor(const FileDescriptor& file, const std::string& name,
                       const TensorEntry& entry, std::uint64_t begin) {
  const at::Tensor tensor = at::empty(entry.sizes, entry.type);
  DASO_ASSERT(tensor.nbytes() == entry.end - entry.begin);
  if (tensor.numel() == 0) return tensor;
  read_at(file, name, begin, host_bytes(tensor));
  require_values(name, entry.name, tensor);
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
  read_at(file, name, 0, std::as_writable_bytes(std::span(&length, 1)));
  require(length <= kLargestHeader, "{}: is no safetensors file: its header would have {} bytes",
          name, length);
  require(length <= whole - sizeof length,
          "{}: is truncated: its header should have {} bytes, the file has {}", name, length,
          whole);
  std::string text(length, '\0');
  read_at(file, name, sizeof length, std::as_writable_bytes(std::span(text)));

  const FileHeader header = parse_header(name, text, whole - sizeof length - length);
  TensorFile result;
  result.metadata = header.metadata;
  for (const TensorEntry& entry : header.entries) {
    const std::uint64_t begin = sizeof length + length + entry.begin;
    result.tensors.emplace(entry.name, read_tensor(file, name, entry, begin));
  }
  return result;
}

}  // namespace daso
