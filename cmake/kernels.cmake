# daso_kernels(NAME): adds NAME_scalar.cpp to the library, and on x86-64 NAME_avx2.cpp and
# NAME_avx512.cpp, each compiled for its instruction set. Only the function that dispatches may
# call them; src/daso/base/simd/scalar.h says what they must not contain.
function(daso_kernels name)
  set(sources ${name}_scalar.cpp)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND sources ${name}_avx2.cpp ${name}_avx512.cpp)
    set_source_files_properties(${name}_avx2.cpp TARGET_DIRECTORY daso
      PROPERTIES COMPILE_OPTIONS "-mavx2;-mf16c")
    set_source_files_properties(${name}_avx512.cpp TARGET_DIRECTORY daso
      PROPERTIES COMPILE_OPTIONS "-mavx512f;-Wno-uninitialized")  # g++ 12 warns of its own headers
  endif()
  set_source_files_properties(${sources} TARGET_DIRECTORY daso
    PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_sources(daso PRIVATE ${sources})
endfunction()
