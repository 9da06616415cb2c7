// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "daso/run/saved_model.h"
#include "daso/tensor/safetensors.h"

// A model that describes itself: what people and programs must know to use its tensors stands in
// the file's metadata, as texts. docs/using.md has the list.
namespace daso {

// The model's name, and of its input what there is: size, classes and their names, mean and
// deviation, vocabulary, sizes of a transformer. Only the name where examples of one's own say no
// more.
Metadata metadata_of(const SavedModel& saved);

// The way back. `name` is the file's. Throws ConfigError where the metadata is not such, or does
// not belong to the tensors.
SavedModel described_model(const TensorFile& file, const std::string& name);

// Lines of Python that load the file: one that metadata_of() describes, or a dict of torch.save.
std::string python_lines(const std::string& file, bool pytorch);

}  // namespace daso
