// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/pytorch_file.h"

#include <ATen/ATen.h>
#include <c10/util/strides.h>
#include <caffe2/serialize/inline_container.h>

#include <bit>
#include <cstring>
#include <exception>
#include <limits>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/tensor/large_tensor.h"
#include "daso/tensor/safetensors_header.h"

namespace daso {
namespace {

static_assert(std::endian::native == std::endian::little, "pickles hold little-endian numbers");

// The few words of Python's pickle language (protocol 2) that a dict of tensors needs.
class Pickle {
 public:
  Pickle() { text_ = "\x80\x02"; }
  const std::string& text() const { return text_; }

  void begin_dict() { text_ += "}("; }
  void end_dict() { text_ += 'u'; }
  void begin_tuple() { text_ += '('; }
  void end_tuple() { text_ += 't'; }
  void call() { text_ += 'R'; }          // of the function and the tuple before it
  void load_storage() { text_ += 'Q'; }  // that the tuple before it describes
  void end() { text_ += '.'; }

  void global(const std::string& module, const std::string& name) {
    text_ += 'c' + module + '\n' + name + '\n';
  }
  void no() { text_ += '\x89'; }
  void word(const std::string& value) {
    DASO_ASSERT(value.size() <= std::numeric_limits<std::uint32_t>::max());
    text_ += 'X';
    number(static_cast<std::uint32_t>(value.size()));
    text_ += value;
  }
  void integer(std::int64_t value) {
    const bool small = value == static_cast<std::int32_t>(value);
    text_ += small ? "J" : "\x8a\x08";  // the latter with the number of bytes
    small ? number(static_cast<std::int32_t>(value)) : number(value);
  }
  void integers(at::IntArrayRef values) {
    begin_tuple();
    for (const std::int64_t value : values) integer(value);
    end_tuple();
  }

 private:
  template <typename Number>
  void number(Number value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string text_;
};

// torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks), where
// storage is the record data/KEY.
void add_tensor(Pickle& pickle, const at::Tensor& tensor, const TensorType& type,
                const std::string& key) {
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.begin_tuple();
  pickle.begin_tuple();
  pickle.word("storage");
  pickle.global("torch", type.pytorch);
  pickle.word(key);
  pickle.word("cpu");
  pickle.integer(tensor.numel());
  pickle.end_tuple();
  pickle.load_storage();
  pickle.integer(0);
  pickle.integers(tensor.sizes());
  pickle.integers(c10::contiguous_strides(tensor.sizes()));
  pickle.no();
  pickle.global("collections", "OrderedDict");
  pickle.integers({});
  pickle.call();
  pickle.end_tuple();
  pickle.call();
}

std::string pickle_of(const State& tensors) {
  Pickle pickle;
  pickle.begin_dict();
  int key = 0;
  for (const auto& [name, tensor] : tensors) {
    pickle.word(name);
    add_tensor(pickle, tensor, type_of(name, tensor), std::to_string(key++));
  }
  pickle.end_dict();
  pickle.end();
  return pickle.text();
}

// Takes what LibTorch's writer of archives gives out. That is C inside and ends the process if it
// is destroyed after an error: so an error is kept here, and what comes after it is not written.
class OutputSink {
 public:
  explicit OutputSink(OutputFile& file) : file_(file) {}

  std::size_t take(const void* data, std::size_t bytes) noexcept {
    try {
      if (!failure_) file_.write({static_cast<const std::byte*>(data), bytes});
    } catch (...) {
      failure_ = std::current_exception();
    }
    return bytes;
  }
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  OutputFile& file_;
  std::exception_ptr failure_;
};

}  // namespace

void write_pytorch(const std::filesystem::path& path, const State& tensors) {
  const std::string pickle = pickle_of(tensors);
  OutputFile file(path);
  OutputSink sink(file);
  caffe2::serialize::PyTorchStreamWriter archive(
      [&](const void* data, std::size_t bytes) { return sink.take(data, bytes); });
  const auto record = [&](const std::string& name, const std::string& text) {
    archive.writeRecord(name, text.data(), text.size());
  };
  record("data.pkl", pickle);
  record(".format_version", "1");
  record("byteorder", "little");
  int key = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor whole = in_one_piece(tensor);
    archive.writeRecord("data/" + std::to_string(key++), whole.const_data_ptr(), whole.nbytes());
    sink.check();
  }
  archive.writeEndOfFile();
  sink.check();
  file.publish();
}

}  // namespace daso
