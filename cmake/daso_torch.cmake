# Defines daso::torch, LibTorch's CPU part out of an installed PyTorch package.
#
# PyTorch's own find_package(Torch) stops with an error on a machine without the CUDA toolkit, even
# when nothing of CUDA is wanted; so we name the few things that we need ourselves. The package is
#   DASO_TORCH_DIR, where given (the folder that holds include/ and lib/), else
#   the torch that `python3` imports.
if(TARGET daso::torch)
  return()
endif()
set(DASO_TORCH_VERSION 2.11.0)
if(NOT DASO_TORCH_DIR)
  execute_process(COMMAND python3 -c
    "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE DASO_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(DASO_TORCH_DIR "${DASO_TORCH_DIR}" CACHE PATH "Folder of the PyTorch package")
if(NOT EXISTS "${DASO_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "No PyTorch ${DASO_TORCH_VERSION} at DASO_TORCH_DIR='${DASO_TORCH_DIR}'. "
    "Install it (pip install torch==${DASO_TORCH_VERSION}) and pass -DDASO_TORCH_DIR=<site-packages>/torch.")
endif()
file(STRINGS "${DASO_TORCH_DIR}/version.py" daso_torch_found REGEX "^__version__")
if(NOT daso_torch_found MATCHES "'${DASO_TORCH_VERSION}[+']")
  message(FATAL_ERROR "DASO needs PyTorch ${DASO_TORCH_VERSION}; "
    "${DASO_TORCH_DIR} holds ${daso_torch_found}.")
endif()

add_library(daso::torch INTERFACE IMPORTED)
target_include_directories(daso::torch SYSTEM INTERFACE
  ${DASO_TORCH_DIR}/include ${DASO_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(daso::torch INTERFACE
  ${DASO_TORCH_DIR}/lib/libtorch_cpu.so ${DASO_TORCH_DIR}/lib/libc10.so)
