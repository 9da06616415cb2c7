// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/bf16.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "daso/base/cpu.h"
#include "daso/base/paths.h"

namespace daso {
namespace {

constexpr unsigned kTrialLimit = 30;  // seconds; a trial takes a tenth of one

constexpr std::array<std::pair<Amx, const char*>, 3> kVerdicts = {
    {{Amx::kUsable, "usable"}, {Amx::kCapped, "capped"}, {Amx::kTrapped, "trapped"}}};

const char* verdict_of(Amx amx) {
  for (const auto& [one, name] : kVerdicts) {
    if (one == amx) return name;
  }
  return "";
}

// Large enough that LibTorch leaves it to oneDNN: forward and backward of a convolution with a
// bias, and of a matrix product.
void compute_in_bf16() {
  constexpr std::int64_t kChannels = 64;
  constexpr std::int64_t kSide = 8;
  at::set_num_threads(1);
  const auto numbers = [](at::IntArrayRef sizes) {
    return at::ones(sizes, at::kBFloat16).set_requires_grad(true);
  };
  const at::Tensor images = numbers({4, kChannels, kSide, kSide});
  const at::Tensor kernel = numbers({kChannels, kChannels, 3, 3});
  const at::Tensor bias = numbers({kChannels});
  at::conv2d(images, kernel, bias, /*stride=*/1, /*padding=*/1).sum().backward();
  const at::Tensor rows = numbers({kChannels, kChannels});
  const at::Tensor columns = numbers({kChannels, kChannels});
  at::matmul(rows, columns).sum().backward();
}

bool has_one_thread() { return names_in("/proc/self/task").size() == 1; }

bool try_bf16(const Environment& variables) {
  if (!has_one_thread()) return find(variables, kCap).has_value();  // assume the worst, and the cap
  return survives([&] {
    const std::optional<std::string> cap = find(variables, kCap);
    if (cap) ::setenv(kCap, cap->c_str(), /*overwrite=*/1);  // NOLINT(concurrency-mt-unsafe)
    compute_in_bf16();
  });
}

}  // namespace

Amx find_amx(bool amx_advertised, const Environment& variables) {
  if (!amx_advertised) return Amx::kAbsent;
  const std::optional<std::string> verdict = find(variables, kVerdict);
  for (const auto& [amx, name] : kVerdicts) {
    if (verdict == name) return amx;
  }
  return Amx::kUntried;
}

Amx decide_bf16(bool amx_advertised, Environment& variables, const Bf16Trial& trial) {
  Amx amx = find_amx(amx_advertised, variables);
  if (amx != Amx::kUntried) return amx;
  amx = trial(variables) ? Amx::kUsable : Amx::kTrapped;
  if (amx == Amx::kTrapped && !find(variables, kCap)) {
    Environment capped = variables;
    capped[kCap] = kCappedTo;
    if (trial(capped)) {
      variables = capped;
      amx = Amx::kCapped;
    }
  }
  variables[kVerdict] = verdict_of(amx);
  return amx;
}

Amx find_amx() { return find_amx(amx_advertised(), this_environment()); }

Amx cap_instruction_sets() {
  Environment variables = this_environment();
  const Amx amx = decide_bf16(amx_advertised(), variables, try_bf16);
  for (const char* name : {kCap, kVerdict}) {
    const std::optional<std::string> value = find(variables, name);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread yet, see the header.
    if (value) ::setenv(name, value->c_str(), /*overwrite=*/1);
  }
  return amx;
}

bool bf16_traps() {
  const Amx amx = find_amx();
  return amx == Amx::kTrapped ||
         (amx == Amx::kUntried && !find(this_environment(), kCap).has_value());
}

std::string text_of(Amx amx) {
  switch (amx) {
    case Amx::kAbsent:
      return "absent";
    case Amx::kUntried:
      return "advertised by the CPU, not tried";
    case Amx::kUsable:
      return "usable";
    case Amx::kCapped:
      return fmt::format(
          "advertised by the CPU but not usable by this process (common in virtual machines); "
          "bf16 through oneDNN is capped to {}",
          kCappedTo);
    case Amx::kTrapped:
      return fmt::format(
          "advertised by the CPU but not usable by this process; bf16 ends it by an illegal "
          "instruction{}, use fp32",
          find(this_environment(), kCap) ? fmt::format(", in spite of {}", kCap) : "");
  }
  return "";
}

bool survives(const std::function<void()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int number : {SIGILL, SIGALRM, SIGSEGV}) std::signal(number, SIG_DFL);
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::alarm(kTrialLimit);
    try {
      act();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  if (child < 0) return false;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace daso
