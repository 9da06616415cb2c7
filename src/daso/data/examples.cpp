// SPDX-License-Identifier: Apache-2.0
#include "daso/data/examples.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "daso/base/checksum.h"
#include "daso/base/error.h"

namespace daso {
namespace {

// "Float [2]": type and shape of one row.
std::string row_of(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().slice(1), ", "));
}

// Of some rows from the first to the last: to read all of large data would take too long.
std::uint64_t sample_checksum(const at::Tensor& tensor) {
  constexpr std::int64_t kRows = 1024;
  const std::int64_t rows = std::min(tensor.size(0), kRows);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < rows; ++i) chosen.push_back(i * tensor.size(0) / rows);
  const at::Tensor sample = tensor.index_select(0, at::tensor(chosen, at::kLong)).contiguous();
  return checksum_of({static_cast<const std::byte*>(sample.const_data_ptr()), sample.nbytes()});
}

class TensorExamples final : public Examples {
 public:
  TensorExamples(at::Tensor inputs, at::Tensor labels)
      : inputs_(std::move(inputs)), labels_(std::move(labels)) {}

  std::int64_t size() const override { return inputs_.size(0); }

  Batch read(std::span<const ExampleDraw> draws) const override {
    const at::Tensor rows = at::empty({std::ssize(draws)}, at::kLong);
    std::ranges::transform(draws, rows.mutable_data_ptr<std::int64_t>(), &ExampleDraw::index);
    return {inputs_.index_select(0, rows), labels_.index_select(0, rows)};
  }

  std::string description() const override {
    return fmt::format("inputs {} (checksum {:016x}), labels {} (checksum {:016x})",
                       row_of(inputs_), sample_checksum(inputs_), row_of(labels_),
                       sample_checksum(labels_));
  }

 private:
  const at::Tensor inputs_;
  const at::Tensor labels_;
};

void check(const char* name, const at::Tensor& tensor) {
  require(tensor.defined() && tensor.dim() >= 1,
          "the {} of examples are a tensor whose rows are the examples; this one has no rows",
          name);
  require(tensor.is_cpu() && !tensor.is_sparse() && !tensor.is_quantized(),
          "the {} of examples lie on the CPU, dense; these are on {}", name, tensor.device().str());
}

std::int64_t rows_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.dim() >= 1 ? tensor.size(0) : 0;
}

}  // namespace

Batch read_checked(const Examples& examples, std::span<const ExampleDraw> draws) {
  Batch batch = examples.read(draws);
  require(rows_of(batch.inputs) == std::ssize(draws) && rows_of(batch.labels) == std::ssize(draws),
          "read() of the examples was asked for {} of them and made {} inputs and {} labels: "
          "dimension 0 of both tensors counts the examples",
          draws.size(), rows_of(batch.inputs), rows_of(batch.labels));
  return batch;
}

std::shared_ptr<const Examples> tensors(const at::Tensor& inputs, const at::Tensor& labels) {
  check("inputs", inputs);
  check("labels", labels);
  require(inputs.size(0) == labels.size(0),
          "each example has an input and a label: there are {} inputs and {} labels",
          inputs.size(0), labels.size(0));
  return std::make_shared<TensorExamples>(inputs.detach(), labels.detach());
}

}  // namespace daso
