// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <string>
#include <thread>

namespace daso {

// Shown by top, gdb and perf; Linux keeps 15 characters and refuses more.
inline void name_thread(std::thread::native_handle_type thread, const std::string& name) {
  ::pthread_setname_np(thread, name.substr(0, 15).c_str());
}

}  // namespace daso
