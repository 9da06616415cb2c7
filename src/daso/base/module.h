// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace daso {

// A module is a part of the library that needs libraries which not every machine has: MPI, CUDA. It
// is a file of its own, lib/daso/libdaso_NAME.so, loaded when it is asked for.
struct Module {
  void* handle = nullptr;
  std::string file;    // where it lies, or should lie
  std::string reason;  // why there is no handle

  // What it exports under this name, with C linkage; null: it has no such thing.
  void* entry(const char* name) const;
};

// Loads a module, or finds it loaded. It stays for the life of the process: its threads and
// handlers may outlive any scope.
Module load_module(const std::string& name);
// Whether the file is there; loads nothing.
bool module_is_built(const std::string& name);

}  // namespace daso
