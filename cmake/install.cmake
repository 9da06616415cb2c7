# What `cmake --install` lays down: bin/daso, lib/libdaso.so, the headers, and a CMake package, so
# that find_package(daso) gives daso::daso. Backend modules (lib/daso/) install themselves, where
# they are defined.
include(CMakePackageConfigHelpers)

target_compile_features(daso PUBLIC cxx_std_20)  # our headers need it, so our users do

# Installed files find each other wherever the prefix lies, and LibTorch beside them, where
# ./daso install --bundle puts it, or where it was at build time. That folder is named outright:
# CMake leaves out what lies under the source folder, as .venv does.
set_target_properties(daso PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/bundled;${DASO_TORCH_DIR}/lib")
set(to_lib $ORIGIN/../${CMAKE_INSTALL_LIBDIR})
set_target_properties(daso_cli PROPERTIES
  INSTALL_RPATH "${to_lib};${to_lib}/bundled;${DASO_TORCH_DIR}/lib")

set(daso_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/daso)
install(TARGETS daso EXPORT daso-targets FILE_SET HEADERS)
install(TARGETS daso_cli)
configure_package_config_file(cmake/daso-config.cmake.in ${PROJECT_BINARY_DIR}/daso-config.cmake
  INSTALL_DESTINATION ${daso_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/daso-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT daso-targets NAMESPACE daso:: DESTINATION ${daso_package_dir})
install(FILES cmake/daso_torch.cmake ${PROJECT_BINARY_DIR}/daso-config.cmake
  ${PROJECT_BINARY_DIR}/daso-config-version.cmake DESTINATION ${daso_package_dir})
