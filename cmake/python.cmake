# Sets DASO_PYTHON, where it is not given, to the Python that has the PyTorch of DASO_TORCH_DIR: that
# of the virtual environment around the package, or else the one on PATH, which may have it in a
# folder of the system or of the user. Looked for each time, so that it follows DASO_TORCH_DIR.
# Apart from daso_torch.cmake, which is installed: only our tests need a Python.
set(DASO_PYTHON "" CACHE STRING "Python that has this PyTorch, for the tests; empty: looked for")
if(DASO_PYTHON)
  set(DASO_PYTHON_FOUND ${DASO_PYTHON} CACHE INTERNAL "for ./daso wheel")
  return()
endif()
file(REAL_PATH "${DASO_TORCH_DIR}" daso_torch_asked)
cmake_path(SET daso_near_python NORMALIZE "${DASO_TORCH_DIR}/../../../../bin/python3")
foreach(daso_python "${daso_near_python}" python3)
  set(daso_answer "")
  # Where its torch lies, without loading it, which takes seconds.
  execute_process(COMMAND "${daso_python}" -c "import importlib.util as u, sys; \
print(u.find_spec('torch').submodule_search_locations[0], sys.executable, sep=';')"
    OUTPUT_VARIABLE daso_answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(daso_answer)
    list(GET daso_answer 0 daso_torch_folder)
    file(REAL_PATH "${daso_torch_folder}" daso_torch_folder)
    if(daso_torch_folder STREQUAL daso_torch_asked)
      list(GET daso_answer 1 DASO_PYTHON)
      set(DASO_PYTHON_FOUND ${DASO_PYTHON} CACHE INTERNAL "for ./daso wheel")
      return()
    endif()
  endif()
endforeach()
message(WARNING "No Python was found that has the PyTorch in ${DASO_TORCH_DIR}; the tests that need "
  "one will fail. Name it with -DDASO_PYTHON=<path>.")
set(DASO_PYTHON python3)
