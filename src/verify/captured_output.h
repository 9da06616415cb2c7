// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "daso/base/file_descriptor.h"

namespace daso::verify {

// While it lives, what the process writes to standard output goes into memory instead.
class CapturedOutput {
 public:
  CapturedOutput();
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  ~CapturedOutput();

  std::string text() const;  // so far

 private:
  FileDescriptor memory_;
  FileDescriptor before_;
};

}  // namespace daso::verify
