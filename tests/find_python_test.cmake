# Which Python cmake/python.cmake finds for a PyTorch, with stand-ins in SCRATCH_DIR.
#   cmake -DSCRATCH_DIR=... -P find_python_test.cmake
cmake_minimum_required(VERSION 3.25)
set(near ${SCRATCH_DIR}/venv/bin/python3)
set(on_path ${SCRATCH_DIR}/bin/python3)
set(torch ${SCRATCH_DIR}/venv/lib/python3.11/site-packages/torch)
file(REMOVE_RECURSE ${SCRATCH_DIR})
file(MAKE_DIRECTORY ${torch} ${SCRATCH_DIR}/other/torch ${SCRATCH_DIR}/linked)
file(CREATE_LINK ${torch} ${SCRATCH_DIR}/linked/torch SYMBOLIC)
set(ENV{PATH} "${SCRATCH_DIR}/bin:$ENV{PATH}")

# has(PYTHON FOLDER): a stand-in whose torch lies in FOLDER; with "" it has none.
function(has python folder)
  set(answer "echo '${folder};${python}'")
  if(folder STREQUAL "")
    set(answer "exit 1")
  endif()
  file(WRITE ${python} "#!/bin/sh\n${answer}\n")
  file(CHMOD ${python} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

function(expect python)
  include(${CMAKE_CURRENT_LIST_DIR}/../cmake/python.cmake)
  if(NOT DASO_PYTHON STREQUAL python)
    message(FATAL_ERROR "found '${DASO_PYTHON}' instead of '${python}'")
  endif()
endfunction()

set(DASO_TORCH_DIR ${torch})
has(${on_path} ${torch})
expect(${on_path})  # there is no other

has(${near} ${SCRATCH_DIR}/other/torch)
expect(${on_path})

has(${near} "")
expect(${on_path})

has(${near} ${torch})
expect(${near})

has(${near} ${SCRATCH_DIR}/linked/torch)
expect(${near})

set(DASO_PYTHON /some/python)
expect(/some/python)
unset(DASO_PYTHON)

# A warning, and the tests fail by themselves.
has(${near} "")
has(${on_path} ${SCRATCH_DIR}/other/torch)
expect(python3)
