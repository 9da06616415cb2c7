// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/safetensors_header.h"

#include <ATen/ATen.h>
#include <ATen/core/TensorBody.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "daso/base/checked_json.h"
#include "daso/base/error.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

constexpr TensorType kTypes[] = {
    {at::kFloat, "F32", "FloatStorage"}, {at::kDouble, "F64", "DoubleStorage"},
    {at::kHalf, "F16", "HalfStorage"},   {at::kBFloat16, "BF16", "BFloat16Storage"},
    {at::kLong, "I64", "LongStorage"},   {at::kInt, "I32", "IntStorage"},
    {at::kShort, "I16", "ShortStorage"}, {at::kChar, "I8", "CharStorage"},
    {at::kByte, "U8", "ByteStorage"},    {at::kBool, "BOOL", "BoolStorage"},
};

}  // namespace

std::span<const TensorType> tensor_types() { return kTypes; }

const TensorType& type_of(const std::string& name, const at::Tensor& tensor) {
  require(tensor.defined(), "tensor '{}' is not defined; it cannot be written to a file", name);
  require(tensor.layout() == at::kStrided,
          "tensor '{}' is sparse; make it dense before it is written to a file", name);
  const auto* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const TensorType& one) { return one.type == tensor.scalar_type(); });
  require(type != std::end(kTypes),
          "tensor '{}' is of type {}, which files cannot hold; convert it first", name,
          c10::toString(tensor.scalar_type()));
  return *type;
}

void require_values(const std::string& file, const std::string& name, const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kBool) return;
  const std::span<const std::byte> all = host_bytes(tensor);
  require(std::all_of(all.begin(), all.end(), [](std::byte one) { return one <= std::byte{1}; }),
          "{}: tensor {} is of type BOOL and has values other than 0 and 1", file, quoted(name));
}

at::Tensor in_one_piece(const at::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kMostFileDimensions = 64;  // many functions of LibTorch take no more

// Checks one entry; every message names file and tensor.
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& name, const json& value)
      : where_(fmt::format("{}: tensor {}", file, quoted(name))), value_(value) {}

  TensorEntry read(const std::string& name) const {
    require(value_.is_object() && value_.size() == 3 && value_.contains("dtype") &&
                value_.contains("shape") && value_.contains("data_offsets"),
            "{} is not described by dtype, shape and data_offsets but by {}", where_,
            shown(value_));
    TensorEntry entry{.name = name, .type = type()};
    const json& shape = value_["shape"];
    require(shape.is_array() && shape.size() <= kMostFileDimensions, "{} has the shape {}", where_,
            shown(shape));
    for (const json& size : shape) entry.sizes.push_back(number(size, "size"));
    const json& offsets = value_["data_offsets"];
    require(offsets.is_array() && offsets.size() == 2, "{} has the data_offsets {}", where_,
            shown(offsets));
    entry.begin = static_cast<std::uint64_t>(number(offsets[0], "offset"));
    entry.end = static_cast<std::uint64_t>(number(offsets[1], "offset"));
    check_bytes(entry);
    return entry;
  }

 private:
  at::ScalarType type() const {
    const json& dtype = value_["dtype"];
    std::string known;
    for (const TensorType& one : tensor_types()) {
      if (dtype == one.safetensors) return one.type;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", one.safetensors);
    }
    throw ConfigError(fmt::format("{} is of type {}; known are {}", where_, shown(dtype), known));
  }

  std::int64_t number(const json& value, const char* what) const {
    constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
    require(value.is_number_unsigned() && value.get<std::uint64_t>() <= kLargest,
            "{} has the {} {}; that takes a whole number of 0 or more", where_, what, shown(value));
    return value.get<std::int64_t>();
  }

  // Empty dimensions count as one for the limit: LibTorch multiplies them so, for its strides.
  void check_bytes(const TensorEntry& entry) const {
    const auto element = static_cast<std::int64_t>(c10::elementSize(entry.type));
    std::int64_t most = element;
    auto bytes = static_cast<std::uint64_t>(element);
    for (const std::int64_t size : entry.sizes) {
      require(!__builtin_mul_overflow(most, std::max<std::int64_t>(size, 1), &most),
              "{} has the shape {}, which is too large", where_, shown(value_["shape"]));
      bytes *= static_cast<std::uint64_t>(size);
    }
    require(entry.begin <= entry.end && entry.end - entry.begin == bytes,
            "{} has shape {} and type {}, which is {} bytes, but lies at {}", where_,
            shown(value_["shape"]), shown(value_["dtype"]), bytes, shown(value_["data_offsets"]));
  }

  const std::string where_;
  const json& value_;
};

Metadata metadata_of(const std::string& file, const json& value) {
  Metadata metadata;
  require(value.is_object(), "{}: its {} is no object but {}", file, kMetadata, shown(value));
  for (const auto& [name, text] : value.items()) {
    require(text.is_string(), "{}: {} of its {} is no text but {}", file, quoted(name), kMetadata,
            shown(text));
    metadata[name] = text.get<std::string>();
  }
  return metadata;
}

// One behind the other from the first byte to the last.
void check_layout(const std::string& file, std::vector<TensorEntry>& entries, std::uint64_t bytes) {
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::uint64_t end = 0;
  for (const TensorEntry& entry : entries) {
    require(entry.begin == end, "{}: tensor {} should begin at byte {} and begins at {}: values {}",
            file, quoted(entry.name), end, entry.begin,
            entry.begin < end ? "overlap" : "have a gap");
    end = entry.end;
  }
  require(end == bytes, "{}: is {}: its tensors have {} bytes, the file has {} for them", file,
          end > bytes ? "truncated" : "too long", end, bytes);
}

}  // namespace

std::string quoted(const std::string& name) { return shown(json(name)); }

std::string header_text(const std::vector<TensorEntry>& entries, const Metadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  for (const TensorEntry& entry : entries) {
    require(entry.name != kMetadata, "a tensor cannot be called {} in a safetensors file",
            kMetadata);
    const auto types = tensor_types();
    const auto type = std::find_if(types.begin(), types.end(),
                                   [&](const TensorType& one) { return one.type == entry.type; });
    DASO_ASSERT(type != types.end());
    header[entry.name] = {{"dtype", type->safetensors},
                          {"shape", entry.sizes},
                          {"data_offsets", {entry.begin, entry.end}}};
  }
  try {
    std::string text = header.dump();
    text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
    return text;
  } catch (const json::exception& error) {
    throw ConfigError(
        fmt::format("a name cannot be written to a safetensors file: {}", error.what()));
  }
}

FileHeader parse_header(const std::string& file, const std::string& text, std::uint64_t bytes) {
  const json parsed = parse_json(text, file + ": its header");
  require(parsed.is_object(), "{}: its header is no JSON object", file);
  FileHeader header;
  for (const auto& [name, value] : parsed.items()) {
    if (name == kMetadata) {
      header.metadata = metadata_of(file, value);
    } else {
      header.entries.push_back(EntryReader(file, name, value).read(name));
    }
  }
  check_layout(file, header.entries, bytes);
  return header;
}

}  // namespace daso
