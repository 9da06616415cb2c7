// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/layers.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <span>
#include <utility>

#include "daso/base/error.h"

namespace daso {

torch::nn::Conv2d convolution(const ConvolutionShape& shape) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.from, shape.to, shape.kernel)
                               .stride(shape.stride)
                               .padding(shape.kernel / 2)
                               .bias(false));
}

void initialise_convolutions(const torch::nn::Module& module) {
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (const auto* found = part->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(found->weight, /*a=*/0, torch::kFanOut, torch::kReLU);
    }
  }
}

namespace {

struct Summation : torch::CustomClassHolder {
  explicit Summation(SumOverRanks the_sum) : sum(std::move(the_sum)) {}
  SumOverRanks sum;
};

// A sum over ranks that knows its derivative: a value of this rank is part of every rank's sum, so
// its gradient is the sum of theirs.
class DifferentiableSum : public torch::autograd::Function<DifferentiableSum> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& values,
                            const c10::intrusive_ptr<Summation>& summation) {
    context->saved_data["summation"] = c10::IValue::make_capsule(summation);
    at::Tensor total = values.clone();
    summation->sum(total);
    return total;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto held = context->saved_data["summation"].toCapsule();
    at::Tensor total = gradients[0].contiguous().clone();
    static_cast<const Summation&>(*held).sum(total);
    return {total, at::Tensor()};
  }
};

// At a multiple of 16 bytes, as cuDNN expects without asking.
bool begins_even(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

// One number for each channel, to be combined with images.
at::Tensor by_channel(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels)
    : torch::nn::BatchNorm2dImpl(torch::nn::BatchNormOptions(channels)) {}

// The tensors of a FlatModel begin anywhere. Where cuDNN could not read them, LibTorch computes.
at::Tensor BatchNormImpl::forward(const at::Tensor& images) {
  if (sum_ && is_training()) return over_ranks(images);
  const bool readable = images.is_cpu() || (begins_even(weight) && begins_even(bias) &&
                                            begins_even(running_mean) && begins_even(running_var));
  if (counts_ && readable) return torch::nn::BatchNorm2dImpl::forward(images);
  if (counts_ && is_training()) num_batches_tracked.add_(1);
  const double momentum = options.momentum().value();
  if (readable) {
    return at::batch_norm(images, weight, bias, running_mean, running_var, is_training(), momentum,
                          options.eps(), at::globalContext().userEnabledCuDNN());
  }
  return std::get<0>(at::native_batch_norm(images, weight, bias, running_mean, running_var,
                                           is_training(), momentum, options.eps()));
}

void check_own_batch_norms(const torch::nn::Module& module) {
  const auto check = [](const std::string& name, const auto* layer) {
    if (layer == nullptr || !layer->weight.defined()) return;
    require(begins_even(layer->weight) && begins_even(layer->bias),
            "layer '{}' is a BatchNorm of LibTorch, and its parameters begin where cuDNN cannot "
            "read them once all parameters lie in one tensor; take daso::BatchNorm "
            "(daso/nets/layers.h) in its place, or train on the CPU",
            name);
  };
  for (const auto& item : module.named_modules()) {
    if (item.value()->as<BatchNorm>() != nullptr) continue;
    check(item.key(), item.value()->as<torch::nn::BatchNorm1dImpl>());
    check(item.key(), item.value()->as<torch::nn::BatchNorm2dImpl>());
    check(item.key(), item.value()->as<torch::nn::BatchNorm3dImpl>());
  }
}

// Sums are of what differs from the running mean, which all ranks have alike: so little cancels
// when the square of the mean is taken off the mean of the squares.
at::Tensor BatchNormImpl::over_ranks(const at::Tensor& images) {
  const at::Tensor shifted = images.to(at::kFloat) - by_channel(running_mean);
  const at::Tensor sums = shifted.sum({0, 2, 3}, /*keepdim=*/false, at::kDouble);
  const at::Tensor squares = shifted.square().sum({0, 2, 3}, /*keepdim=*/false, at::kDouble);
  const std::int64_t channels = images.size(1);
  const at::Tensor values =
      at::full({1}, static_cast<double>(images.numel() / channels), sums.options());
  const at::Tensor totals = DifferentiableSum::apply(at::cat({sums, squares, values}),
                                                     c10::make_intrusive<Summation>(sum_));
  const double number = totals[2 * channels].item<double>();
  const at::Tensor mean = totals.narrow(0, 0, channels) / number;
  const at::Tensor variance =
      (totals.narrow(0, channels, channels) / number - mean.square()).clamp_min(0);
  {
    const at::NoGradGuard no_grad;
    const double momentum = options.momentum().value();
    running_mean.add_((mean * momentum).to(at::kFloat));
    const at::Tensor unbiased = variance * (number / std::max(number - 1, 1.0));
    running_var.mul_(1 - momentum).add_((unbiased * momentum).to(at::kFloat));
    num_batches_tracked.add_(1);
  }
  const at::Tensor scale = weight * (variance + options.eps()).rsqrt().to(at::kFloat);
  const at::Tensor result =
      (shifted - by_channel(mean.to(at::kFloat))) * by_channel(scale) + by_channel(bias);
  return result.to(images.scalar_type());
}

void set_counting(torch::nn::Module& network, bool counting) {
  for (const auto& part : network.modules(/*include_self=*/false)) {
    if (auto* found = part->as<BatchNorm>()) found->set_counting(counting);
  }
}

int share_statistics(torch::nn::Module& network, const SumOverRanks& sum) {
  int layers = 0;
  for (const auto& part : network.modules(/*include_self=*/false)) {
    if (auto* found = part->as<BatchNorm>()) {
      found->share(sum);
      ++layers;
    }
  }
  return layers;
}

namespace {

constexpr std::uint64_t kDropout = 7;  // tells this use of the seed from others

// LibTorch's integers have a sign, but products and sums have the same bits without it.
std::int64_t as_signed(std::uint64_t bits) { return static_cast<std::int64_t>(bits); }

at::Tensor shifted(const at::Tensor& bits, int by) {
  return bits.__rshift__(by).__and__(as_signed(~std::uint64_t{0} >> by));
}

}  // namespace

at::Tensor kept_values(RandomStream& random, std::int64_t values, double chance) {
  const at::Tensor kept = at::empty({values}, at::kBool);
  const std::span<bool> all(kept.mutable_data_ptr<bool>(), static_cast<std::size_t>(values));
  for (bool& keep : all) keep = random.fraction() >= chance;
  return kept;
}

// The steps of RandomStream::next() and fraction().
at::Tensor kept_values_at_once(RandomStream& random, std::int64_t values, double chance,
                               at::Device device) {
  using Stream = RandomStream;
  at::Tensor bits = at::arange(1, values + 1, at::TensorOptions(at::kLong).device(device));
  bits = bits * as_signed(Stream::kGolden) + as_signed(random.position());
  bits = bits.__xor__(shifted(bits, 30)) * as_signed(Stream::kFirstFactor);
  bits = bits.__xor__(shifted(bits, 27)) * as_signed(Stream::kSecondFactor);
  bits = bits.__xor__(shifted(bits, 31));
  random.skip(static_cast<std::uint64_t>(values));
  return (shifted(bits, 11).to(at::kDouble) * 0x1p-53).ge(chance);
}

// The factor is no part of a tensor: in bf16 it would be rounded, and change the mean.
at::Tensor Dropout::forward(const at::Tensor& values) {
  if (chance_ == 0 || !is_training()) return values;
  const at::Tensor kept =
      values.is_cpu() ? kept_values(random_, values.numel(), chance_)
                      : kept_values_at_once(random_, values.numel(), chance_, values.device());
  return values * kept.view(values.sizes()) * (1 / (1 - chance_));
}

void draw_dropout(torch::nn::Module& network, const DropoutPass& pass) {
  RandomStream random{pass.seed, kDropout, static_cast<std::uint64_t>(pass.rank),
                      static_cast<std::uint64_t>(pass.step), static_cast<std::uint64_t>(pass.part)};
  for (const auto& layer : network.modules(/*include_self=*/false)) {
    if (auto* found = layer->as<Dropout>()) found->draw_from(RandomStream(random.next()));
  }
}

}  // namespace daso
