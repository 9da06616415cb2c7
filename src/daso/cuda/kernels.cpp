// SPDX-License-Identifier: Apache-2.0
// The table of the CUDA kernels: on the current device and stream of the calling thread, with
// memory from LibTorch's allocator for what is needed in between.
#include "daso/cuda/kernels.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <atomic>
#include <utility>

#include "daso/base/error.h"
#include "daso/cuda/launch.h"

namespace daso::cuda {
namespace {

unsigned processors_of(int device) {
  constexpr std::size_t kMostDevices = 64;
  static std::array<std::atomic<int>, kMostDevices> known{};
  DASO_ASSERT(static_cast<std::size_t>(device) < kMostDevices);
  std::atomic<int>& processors = known.at(static_cast<std::size_t>(device));
  if (processors == 0) {
    int number = 0;
    const cudaError_t answer =
        cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, device);
    if (answer != cudaSuccess) {
      throw Error(fmt::format("GPU {} gives no answer: {}", device, cudaGetErrorString(answer)));
    }
    processors = number;
  }
  return static_cast<unsigned>(processors.load());
}

Launch here() {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  return {.stream = stream.stream(), .processors = processors_of(stream.device_index())};
}

void check_launch(const char* kernel) {
  const cudaError_t answer = cudaGetLastError();
  if (answer == cudaSuccess) return;
  throw Error(fmt::format("the CUDA kernel '{}' could not be started: {}", kernel,
                          cudaGetErrorString(answer)));
}

// Freed when it goes out of scope, and used again by what comes later in the same stream.
c10::DataPtr doubles(std::size_t number) {
  return c10::cuda::CUDACachingAllocator::get()->allocate(number * sizeof(double));
}

bool is_multiple(const void* pointer, std::size_t of) {
  return reinterpret_cast<std::uintptr_t>(pointer) % of == 0;
}

// A warp reads and writes a block in pieces of so many bytes.
void check_place(Wire wire, const void* encoded) {
  const std::size_t block = encoded_bytes(wire, kBlockElements);
  DASO_ASSERT(is_multiple(encoded, block % 16 == 0 ? (wire == Wire::kFp32 ? 16 : 8) : 4));
}
void check_place(const float* values) { DASO_ASSERT(is_multiple(values, 16)); }

void check_terms(std::size_t number) {
  require(number <= kMostTerms, "a GPU averages over {} terms at most, {} were given", kMostTerms,
          number);
}

template <std::size_t kNumber>
struct OfWire {
  static constexpr Wire kWire = static_cast<Wire>(kNumber);

  static void encode(const kernels::Encoding& encoding) {
    if (encoding.blocks == 0) return;
    check_place(encoding.values);
    check_place(encoding.anchor);
    check_place(kWire, encoding.encoded);
    cuda::encode(kWire, encoding, here());
    check_launch("encode");
  }
  static void decode(const kernels::Decoding& decoding) {
    if (decoding.blocks == 0) return;
    check_place(decoding.values);
    check_place(kWire, decoding.encoded);
    cuda::decode(kWire, decoding, here());
    check_launch("decode");
  }
  static void average(const kernels::Averaging& averaging) {
    check_terms(averaging.number_of_terms);
    if (averaging.blocks == 0) return;
    check_place(averaging.residual);
    check_place(kWire, averaging.back);
    for (std::size_t n = 0; n < averaging.number_of_terms; ++n) {
      check_place(kWire, averaging.terms[n].encoded);
    }
    cuda::average(kWire, averaging, here());
    check_launch("average");
  }
  static void merge_corrected(const kernels::Merging& merging) {
    if (merging.blocks == 0) return;
    check_merge(merging);
    cuda::merge_corrected(kWire, merging, here());
    check_launch("merge (corrected)");
  }
  static void merge_paper(const kernels::Merging& merging) {
    if (merging.blocks == 0) return;
    check_merge(merging);
    check_place(merging.sent);
    cuda::merge_paper(kWire, merging, here());
    check_launch("merge (paper)");
  }
  static void squared_distance(const kernels::Distance& distance) {
    check_place(kWire, distance.own);
    check_place(kWire, distance.back);
    const c10::DataPtr parts = doubles(parts_of_distance(distance.blocks));
    cuda::squared_distance(kWire, distance, static_cast<double*>(parts.get()), here());
    check_launch("distance");
  }

  static constexpr WireKernels kTable = {encode,          decode,      average,
                                         merge_corrected, merge_paper, squared_distance};

 private:
  static void check_merge(const kernels::Merging& merging) {
    check_place(merging.parameters);
    check_place(merging.anchor);
    check_place(kWire, merging.own);
    check_place(kWire, merging.back);
  }
};

void mean(const kernels::Mean& mean) {
  check_terms(mean.number_of_terms);
  cuda::mean(mean, here());
  check_launch("mean");
}

void digest(const kernels::Digest& digest) {
  cuda::digest(digest, here());
  check_launch("digest");
}

void finite_check(const kernels::FiniteCheck& check) {
  cuda::finite_check(check, here());
  check_launch("finite check");
}

void squares(const kernels::Squares& squares) {
  const c10::DataPtr parts = doubles(parts_of_squares(squares.elements));
  cuda::squares(squares, static_cast<double*>(parts.get()), here());
  check_launch("squares");
}

void clip(const kernels::Clipping& clipping) {
  const c10::DataPtr parts = doubles(parts_of_squares(clipping.elements));
  cuda::clip(clipping, static_cast<double*>(parts.get()), here());
  check_launch("clip");
}

void sgd(const kernels::SgdUpdate& update) {
  cuda::sgd(update, here());
  check_launch("sgd");
}

void lars(const kernels::LarsUpdate& update) {
  cuda::lars(update, here());
  check_launch("lars");
}

void adamw(const kernels::AdamwUpdate& update) {
  cuda::adamw(update, here());
  check_launch("adamw");
}

void lamb(const kernels::LambUpdate& update) {
  cuda::lamb(update, here());
  check_launch("lamb");
}

void ema(const kernels::EmaUpdate& update) {
  cuda::ema(update, here());
  check_launch("ema");
}

void place(const kernels::Placing& work) {
  cuda::place(work, here());
  check_launch("place");
}

// Images are resized before they are copied to a GPU.
void rows(const kernels::RowSum& /*sum*/) { DASO_ASSERT(!"images are resized by the CPU"); }
void pixels(const kernels::PixelSum& /*sum*/) { DASO_ASSERT(!"images are resized by the CPU"); }

template <std::size_t... kNumbers>
constexpr Kernels table_of(std::index_sequence<kNumbers...> /*wires*/) {
  return {.host = false,
          .wires = {OfWire<kNumbers>::kTable...},
          .mean = mean,
          .digest = digest,
          .finite_check = finite_check,
          .squares = squares,
          .clip = clip,
          .sgd = sgd,
          .lars = lars,
          .adamw = adamw,
          .lamb = lamb,
          .ema = ema,
          .rows = rows,
          .pixels = pixels,
          .place = place};
}

}  // namespace

const Kernels& kernels() {
  static constexpr Kernels kTable = table_of(std::make_index_sequence<kWires>());
  return kTable;
}

}  // namespace daso::cuda
