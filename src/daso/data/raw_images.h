// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include "daso/data/batch.h"
#include "daso/data/dataset.h"
#include "daso/kernels/kernels.h"

// Images as the bytes that they are stored as, a quarter of what they are as inputs. A loader that
// is asked for them (LoaderOptions::raw) leaves to the device what is done with each value. The
// device does what BatchFiller does on the host, with the same bits.
namespace daso {

// What each byte of each channel becomes, float32 [channels, 256]: (byte / 255 - mean) * factor.
// Undefined for data that has none: texts, and images that are not stored as bytes, as those of
// files are, which are resized. The normalisation is a complete one.
at::Tensor raw_values(const Dataset& dataset, const Normalisation& normalisation);

// Makes inputs of a raw batch: float32 [batch, channels, height, width], contiguous. All tensors
// lie on the device of the kernels.
void place_images(const Batch& raw, const at::Tensor& inputs, const Kernels& kernels);

}  // namespace daso
