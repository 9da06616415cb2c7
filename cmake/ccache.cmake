# Compiles through ccache where there is one. Precompiled headers need two of its checks relaxed.
find_program(DASO_CCACHE ccache)
if(DASO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${DASO_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${DASO_CCACHE})
endif()
