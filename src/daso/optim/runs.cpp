// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/runs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "daso/tensor/names.h"

namespace daso {
namespace {

// Weight decay is for tensors of more than one dimension, or for all, but for those that are named.
ElementRun run_of(const FlatModel& model, std::size_t span, bool decay_all,
                  const std::vector<std::string>& no_decay) {
  const FlatSpan& place = model.parameter_spans()[span];
  const bool matrix = model.parameter(span).dim() > 1;
  return {.offset = static_cast<std::size_t>(place.offset),
          .elements = static_cast<std::size_t>(place.elements),
          .decays = (decay_all || matrix) && !has_prefix(place.name, no_decay),
          .adapts = matrix};
}

// A tensor with the bytes of a table.
template <typename Row>
at::Tensor table_of(const std::vector<Row>& rows, const at::Device& device) {
  const auto size = static_cast<std::int64_t>(rows.size() * sizeof(Row));
  const at::Tensor table = at::empty({size}, at::kByte);
  if (size > 0) std::memcpy(table.mutable_data_ptr(), rows.data(), table.nbytes());
  return table.to(device);
}

template <typename Row>
Row* rows_in(const at::Tensor& table) {
  return table.defined() ? static_cast<Row*>(table.mutable_data_ptr()) : nullptr;
}

}  // namespace

std::vector<ElementRun> decay_runs(const FlatModel& model, const OptimizerOptions& options) {
  const auto whole = static_cast<std::size_t>(model.parameters().numel());
  if (options.weight_decay == 0) return {{.offset = 0, .elements = whole}};
  check_prefixes(model.module(), options.no_decay);
  if (options.decay_all && options.no_decay.empty()) return {{.offset = 0, .elements = whole}};
  std::vector<ElementRun> runs;
  for (std::size_t i = 0; i < model.parameter_spans().size(); ++i) {
    const ElementRun next = run_of(model, i, options.decay_all, options.no_decay);
    if (runs.empty() || runs.back().decays != next.decays) {
      runs.push_back({.offset = next.offset, .elements = 0, .decays = next.decays});
    }
    runs.back().elements += next.elements;
  }
  // The padding is zeros, which decay leaves alone.
  runs.back().elements = whole - runs.back().offset;
  return runs;
}

std::vector<ElementRun> layer_runs(const FlatModel& model, const OptimizerOptions& options) {
  check_prefixes(model.module(), options.no_decay);
  std::vector<ElementRun> runs;
  for (std::size_t i = 0; i < model.parameter_spans().size(); ++i) {
    runs.push_back(run_of(model, i, /*decay_all=*/false, options.no_decay));
  }
  return runs;
}

// A chunk ends where its run does, or where the flat tensor has a multiple of kChunkElements.
std::vector<kernels::Chunk> cut_in_chunks(std::vector<kernels::Run>& runs) {
  std::vector<kernels::Chunk> chunks;
  for (std::size_t number = 0; number < runs.size(); ++number) {
    kernels::Run& run = runs[number];
    run.first_chunk = static_cast<std::uint32_t>(chunks.size());
    const std::size_t end = run.begin + run.elements;
    for (std::size_t begin = run.begin; begin < end;) {
      const std::size_t next = (begin / kernels::kChunkElements + 1) * kernels::kChunkElements;
      const std::size_t stop = std::min(next, end);
      chunks.push_back({.begin = begin,
                        .elements = static_cast<std::uint32_t>(stop - begin),
                        .run = static_cast<std::uint32_t>(number)});
      begin = stop;
    }
    run.chunks = static_cast<std::uint32_t>(chunks.size()) - run.first_chunk;
  }
  return chunks;
}

RunTable::RunTable(const std::vector<ElementRun>& runs, double weight_decay,
                   const at::Device& device)
    : number_(runs.size()) {
  std::vector<kernels::Run> rows;
  std::vector<kernels::Chunk> chunks;
  for (const ElementRun& run : runs) {
    rows.push_back({.begin = run.offset,
                    .elements = run.elements,
                    .weight_decay = run.decays ? weight_decay : 0,
                    .adapts = run.adapts,
                    .first_chunk = 0,
                    .chunks = 0});
  }
  if (!device.is_cpu()) chunks = cut_in_chunks(rows);
  runs_ = table_of(rows, device);
  if (device.is_cpu()) return;
  number_of_chunks_ = chunks.size();
  chunks_ = table_of(chunks, device);
  const auto many = static_cast<std::int64_t>(chunks.size());
  const auto number = static_cast<std::int64_t>(rows.size());
  sums_ = at::zeros({2 * many}, at::TensorOptions(device).dtype(at::kDouble));
  arrived_ = at::zeros({number}, at::TensorOptions(device).dtype(at::kInt));
  rates_ = at::zeros({number}, at::TensorOptions(device).dtype(at::kFloat));
}

kernels::Runs RunTable::runs() const {
  return {.runs = rows_in<kernels::Run>(runs_),
          .number = number_,
          .chunks = rows_in<kernels::Chunk>(chunks_),
          .number_of_chunks = number_of_chunks_,
          .sums = rows_in<double>(sums_),
          .arrived = rows_in<std::uint32_t>(arrived_),
          .rates = rows_in<float>(rates_)};
}

}  // namespace daso
