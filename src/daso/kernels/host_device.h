// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions that a GPU runs, too: CUDA's compiler wants to be told. They are the one definition of
// an element's arithmetic, so a machine without a GPU tests the bits of both.
#ifdef __CUDACC__
#define DASO_HOST_DEVICE __host__ __device__
#else
#define DASO_HOST_DEVICE
#endif

// The same, and part of whoever calls it: code of an instruction set must not be shared.
#define DASO_ALWAYS_INLINE DASO_HOST_DEVICE __attribute__((always_inline)) inline
