// SPDX-License-Identifier: Apache-2.0
// device_probe DEVICE: what find_device says of it, and exit code 2 where it refuses.
#include <cstdio>
#include <exception>

#include "daso/base/error.h"
#include "daso/tensor/device.h"

int main(int /*count*/, char** arguments) {
  try {
    const daso::DeviceFound found = daso::find_device(daso::parse_device(arguments[1]), 0);
    std::printf("%s %s\n", found.device.str().c_str(), found.note.c_str());
    return daso::kExitOk;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return daso::exit_code_of(error);
  }
}
