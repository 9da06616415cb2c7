// SPDX-License-Identifier: Apache-2.0
#pragma once

// Before all others: it includes Python's headers with the settings that PyTorch was built with.
#include <torch/csrc/autograd/python_variable.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

// Tensors pass between Python and the library as what they are: the object of one is a handle of
// the other, and nothing is copied.
namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    if (!THPVariable_Check(source.ptr())) return false;
    value = THPVariable_Unpack(source.ptr());
    return true;
  }
  static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return THPVariable_Wrap(tensor);
  }
};

}  // namespace nanobind::detail
