# Installs the build BUILD_DIR into the folder SCRATCH_DIR, and builds and runs the project in this
# folder with nothing but what was installed: a program, and every header on its own. VERSION is the
# one that the program must report.
#   cmake -DBUILD_DIR=... -DSCRATCH_DIR=... -DVERSION=... -P package_test.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "'${command}' ended with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix ${SCRATCH_DIR}/prefix)
set(build ${SCRATCH_DIR}/build)
file(REMOVE_RECURSE ${SCRATCH_DIR})

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
file(STRINGS ${BUILD_DIR}/CMakeCache.txt ninja REGEX "^CMAKE_MAKE_PROGRAM:")
string(REGEX REPLACE "^[^=]*=" "" ninja "${ninja}")
run(${CMAKE_COMMAND} -G Ninja -DCMAKE_MAKE_PROGRAM=${ninja} -DCMAKE_PREFIX_PATH=${prefix}
  -DCMAKE_PROJECT_INCLUDE=${CMAKE_CURRENT_LIST_DIR}/../../cmake/ccache.cmake
  -S ${CMAKE_CURRENT_LIST_DIR} -B ${build})
run(${CMAKE_COMMAND} --build ${build})

run(${build}/somebody)
set(expected "daso ${VERSION}: world of 1, 2 nodes, gloo\n")
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "somebody printed '${output}' instead of '${expected}'")
endif()

# The installed program finds the installed library: the one of the build folder has no say in it.
run(${CMAKE_COMMAND} -E env LD_TRACE_LOADED_OBJECTS=1 ${prefix}/bin/daso)
if(NOT output MATCHES "libdaso\\.so[^ ]* => [^\n]*/prefix/" OR output MATCHES "not found")
  message(FATAL_ERROR "${prefix}/bin/daso is not linked to the installed libdaso.so:\n${output}")
endif()

# With all libraries beside them, what was installed finds them wherever the folder is moved.
run(bash -euc [=[source "$0/tools/build.sh" && bundle "$1"]=] ${CMAKE_CURRENT_LIST_DIR}/../..
  ${prefix})
set(moved ${SCRATCH_DIR}/moved)
file(RENAME ${prefix} ${moved})
run(${moved}/bin/daso --version)
run(${CMAKE_COMMAND} -E env LD_TRACE_LOADED_OBJECTS=1 ${moved}/bin/daso)
if(NOT output MATCHES "libdaso\\.so[^ ]* => [^\n]*/moved/" OR
    NOT output MATCHES "libtorch_cpu\\.so => [^\n]*/moved/[^\n]*/bundled/")
  message(FATAL_ERROR "${moved}/bin/daso does not find the libraries beside it:\n${output}")
endif()
