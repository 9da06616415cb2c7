// SPDX-License-Identifier: Apache-2.0
// What tensor_files_test.py starts: writes tensors as files, or reads a file and writes it again.
#include <ATen/ATen.h>

#include <exception>
#include <iostream>
#include <string>

#include "daso/base/error.h"
#include "daso/tensor/pytorch_file.h"
#include "daso/tensor/safetensors.h"

namespace {

// The same as expected() of tensor_files_test.py.
daso::State tensors() {
  const at::Tensor numbers = at::arange(24, at::kFloat).sub(7).div(3);
  return {
      {"float", numbers.view({2, 3, 4})},
      {"double", numbers.to(at::kDouble).mul(3).square()},
      {"half", numbers.to(at::kHalf)},
      {"bfloat16", numbers.to(at::kBFloat16).view({4, 6})},
      {"int64", at::arange(-3, 5, at::kLong).mul(std::int64_t{1} << 40)},
      {"int32", at::arange(-3, 5, at::kInt).mul(1 << 20)},
      {"int16", at::arange(-3, 5, at::kShort).mul(1 << 10)},
      {"int8", at::arange(-3, 5, at::kChar)},
      {"uint8", at::arange(250, 256, at::kInt).to(at::kByte)},
      {"bool", at::arange(6).remainder(2).to(at::kBool)},
      {"scalar", at::scalar_tensor(0.125, at::kFloat)},
      {"empty", at::empty({0, 3})},
      {"transposed", numbers.view({4, 6}).t()},
      {"every second", numbers.slice(0, 1, 24, 2)},
      {"channels_last", numbers.view({1, 2, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"expanded", at::ones({1}).expand({3, 2})},
      {"layer.0.weight ü", numbers.slice(0, 0, 2)},
  };
}

void write(const std::string& path, const daso::State& state, const daso::Metadata& metadata) {
  if (path.ends_with(".pt")) return daso::write_pytorch(path, state);
  daso::write_tensors(path, state, metadata);
}

}  // namespace

int main(int count, char** words) {
  try {
    const std::vector<std::string> arguments(words + 1, words + count);
    daso::require(arguments.size() == 2, "usage: tensor_files_probe example|empty|FILE FILE");
    const std::string& from = arguments[0];
    if (from == "example") {
      write(arguments[1], tensors(), {{"made", "here"}});
    } else if (from == "empty") {
      write(arguments[1], {}, {});
    } else {
      const daso::TensorFile file = daso::is_pytorch(from)
                                        ? daso::TensorFile{daso::read_pytorch(from), {}}
                                        : daso::read_tensors(from);
      write(arguments[1], file.tensors, file.metadata);
    }
    return daso::kExitOk;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return daso::exit_code_of(error);
  }
}
