// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daso/tensor/safetensors.h"

// What files of tensors can hold, and the JSON header of a safetensors file, apart from the file:
// text in, checked values out.
namespace daso {

// A type that files of tensors can hold, and what they call it.
struct TensorType {
  at::ScalarType type;
  const char* safetensors;  // "F32"
  const char* pytorch;      // the class of its storage: "FloatStorage"
};

std::span<const TensorType> tensor_types();

// Throws ConfigError naming the tensor if no file can hold it: undefined, sparse, another type.
const TensorType& type_of(const std::string& name, const at::Tensor& tensor);

// The values in one piece in the memory of the CPU; the tensor itself where it is like that
// already.
at::Tensor in_one_piece(const at::Tensor& tensor);

// Throws ConfigError naming file and tensor for a bool that is neither 0 nor 1: what such a value
// does is undefined.
void require_values(const std::string& file, const std::string& name, const at::Tensor& tensor);

// As in the format's own library; a longer one is an attack or no such file.
inline constexpr std::uint64_t kLargestHeader = 100'000'000;

struct TensorEntry {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes;
  std::uint64_t begin = 0;  // bytes from the end of the header
  std::uint64_t end = 0;
};

struct FileHeader {
  std::vector<TensorEntry> entries;  // in the order of their bytes
  Metadata metadata;
};

// Padded with spaces, so that the values begin at a multiple of 8 bytes.
std::string header_text(const std::vector<TensorEntry>& entries, const Metadata& metadata);

// `file` is for messages; `bytes` is the number that follows the header. Throws ConfigError.
FileHeader parse_header(const std::string& file, const std::string& text, std::uint64_t bytes);

// A name out of a file for a message: in quotes, with nothing in it that a terminal would obey.
std::string quoted(const std::string& name);

}  // namespace daso
