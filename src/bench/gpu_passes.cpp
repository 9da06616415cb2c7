// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_passes.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <thread>

#include "daso/base/error.h"
#include "daso/base/seconds.h"
#include "daso/kernels/merge.h"
#include "daso/kernels/update.h"
#include "daso/optim/runs.h"
#include "daso/tensor/flat_values.h"
#include "daso/tensor/large_tensor.h"

namespace daso::bench {
namespace {

constexpr int kCalls = 10;  // of one timing
constexpr int kTerms = 4;   // of a mean

// As many layers as ResNet-50 has, each a matrix and a vector behind it.
std::vector<ElementRun> layers_of(std::size_t elements) {
  constexpr std::size_t kLayers = 54;
  constexpr std::size_t kVector = 1003;
  const std::size_t layer = elements / kLayers + 1;
  std::vector<ElementRun> runs;
  for (std::size_t begin = 0; begin < elements; begin += layer) {
    const std::size_t end = std::min(begin + layer, elements);
    const std::size_t vector = end - begin > kVector ? end - kVector : begin;
    if (vector > begin) {
      runs.push_back({.offset = begin, .elements = vector - begin, .decays = true, .adapts = true});
    }
    runs.push_back({.offset = vector, .elements = end - vector, .decays = false, .adapts = false});
  }
  return runs;
}

// A model's worth of numbers on the GPU.
struct GpuModel {
  GpuModel(const GpuPassOptions& options, const at::Device& device)
      : kernels(kernels_of(at::empty({0}, device))),
        runs(layers_of(static_cast<std::size_t>(options.elements)), 1e-4, device) {
    const auto floats_on = at::TensorOptions(device).dtype(at::kFloat);
    anchor = at::empty({options.elements}, floats_on).uniform_(-1, 1);
    gradients = at::empty({options.elements}, floats_on).uniform_(-1, 1);
    parameters = anchor - 1e-3 * gradients;
    sent = parameters.clone();
    first = at::zeros_like(parameters);
    second = at::zeros_like(parameters);
    const auto encoded = static_cast<std::int64_t>(
        encoded_bytes(options.wire, static_cast<std::size_t>(options.elements)));
    own = at::zeros({encoded}, floats_on.dtype(at::kByte));
    overflow = clear_flag(parameters);
    encode_into(options.wire, parameters, anchor, own, {}, overflow);
    back = own.clone();
  }

  const Kernels& kernels;
  const RunTable runs;
  at::Tensor parameters;
  at::Tensor anchor;
  at::Tensor sent;
  at::Tensor gradients;
  at::Tensor first;
  at::Tensor second;
  at::Tensor own;
  at::Tensor back;
  at::Tensor overflow;
};

using Call = std::function<void()>;

struct TimedPass {
  GpuPass pass;
  Call call;
};

void mean_over_terms(const GpuModel& model) {
  std::vector<kernels::MeanTerm> terms;
  for (const at::Tensor* one : {&model.parameters, &model.anchor, &model.sent, &model.gradients}) {
    terms.push_back({one->const_data_ptr<float>(), 1.0F / kTerms});
  }
  model.kernels.mean({.terms = terms.data(),
                      .number_of_terms = terms.size(),
                      .divisor = 1,
                      .residual = nullptr,
                      .mean = floats(model.sent).data(),
                      .elements = floats(model.sent).size(),
                      .overflow = nullptr});
}

// The numbers in front of `bytes` count what is read and written of each array.
std::vector<TimedPass> passes_of(const GpuPassOptions& options, GpuModel& model) {
  const std::int64_t all = options.elements * static_cast<std::int64_t>(sizeof(float));
  const auto encoded = static_cast<std::int64_t>(model.own.nbytes());
  const auto step_of = [&model](auto update) {
    return [&model, update] {
      update(model.runs.runs(), floats(model.gradients), floats(model.parameters));
    };
  };
  std::vector<TimedPass> passes;
  const auto add = [&passes](const char* name, std::int64_t bytes, const Call& call) {
    passes.push_back({{.name = name, .bytes = bytes}, call});
  };
  add("encode", 2 * all + encoded, [&model, wire = options.wire] {
    encode_into(wire, model.parameters, model.anchor, model.own, {}, model.overflow);
  });
  add("decode", all + encoded, [&model, wire = options.wire] {
    decode(wire, bytes(model.own), floats(model.sent), model.kernels);
  });
  add("merge", (options.paper ? 5 : 4) * all + 2 * encoded, [&model, options] {
    const Merge merge{options.wire, bytes(model.own), bytes(model.back), floats(model.parameters),
                      floats(model.anchor)};
    if (!options.paper) return merge_corrected(merge, model.kernels);
    merge_paper(merge, {.sent = floats(model.sent), .staleness = 1, .peers = 4}, model.kernels);
  });
  add("mean", (kTerms + 1) * all, [&model] { mean_over_terms(model); });
  add("sgd", 5 * all, step_of([&model](const auto& runs, auto gradients, auto parameters) {
        sgd_update({.learning_rate = 1e-6F, .momentum = 0.9F}, runs, gradients, parameters,
                   floats(model.first), model.kernels);
      }));
  add("adamw", 7 * all, step_of([&model](const auto& runs, auto gradients, auto parameters) {
        adamw_update({.learning_rate = 1e-6, .number = 9}, runs, gradients, parameters,
                     floats(model.first), floats(model.second), model.kernels);
      }));
  // Norms first: gradients and parameters are read twice.
  add("lars", 7 * all, step_of([&model](const auto& runs, auto gradients, auto parameters) {
        lars_update({.learning_rate = 1e-6, .momentum = 0.9F}, runs, gradients, parameters,
                    floats(model.first), model.kernels);
      }));
  // Moments are written with the norms, and read again with the parameters.
  add("lamb", 10 * all, step_of([&model](const auto& runs, auto gradients, auto parameters) {
        lamb_update({.learning_rate = 1e-6, .number = 9}, runs, gradients, parameters,
                    floats(model.first), floats(model.second), model.kernels);
      }));
  return passes;
}

// The GPU's clock before and after some calls on the current stream.
double seconds_of(const Call& call, const at::Device& device) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  c10::Event begin(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  for (int i = 0; i < kCalls; ++i) call();
  end.record(stream);
  const auto asked = Clock::now();
  while (!end.query()) {
    if (since(asked) > Seconds(60)) throw Error("the GPU did not end a measurement in 60 s");
    std::this_thread::yield();
  }
  return begin.elapsedTime(end) / 1e3 / kCalls;
}

}  // namespace

std::vector<GpuPass> time_gpu_passes(const GpuPassOptions& options, const at::Device& device) {
  GpuModel model(options, device);
  std::vector<TimedPass> passes = passes_of(options, model);
  std::int64_t most = 0;
  for (TimedPass& one : passes) {
    one.pass.seconds = one.pass.copy_seconds = std::numeric_limits<double>::infinity();
    most = std::max(most, one.pass.bytes);
  }
  const at::Tensor source = at::zeros({most / 2}, at::TensorOptions(device).dtype(at::kByte));
  const at::Tensor target = at::zeros_like(source);
  for (int round = 0; round < options.iterations; ++round) {
    for (TimedPass& one : passes) {
      const at::Tensor from = source.narrow(0, 0, one.pass.bytes / 2);
      const at::Tensor to = target.narrow(0, 0, one.pass.bytes / 2);
      const double copy = seconds_of([&] { to.copy_(from, /*non_blocking=*/true); }, device);
      one.pass.copy_seconds = std::min(one.pass.copy_seconds, copy);
      one.pass.seconds = std::min(one.pass.seconds, seconds_of(one.call, device));
    }
  }
  std::vector<GpuPass> results;
  for (const TimedPass& one : passes) results.push_back(one.pass);
  if (model.overflow.item<int>() != 0) throw Error("the numbers of the bench overflow");
  return results;
}

}  // namespace daso::bench
