// SPDX-License-Identifier: Apache-2.0
#include "verify/captured_output.h"

#include <sys/mman.h>

#include <array>
#include <cstdio>

#include "daso/base/error.h"

namespace daso::verify {

CapturedOutput::CapturedOutput()
    : memory_(::memfd_create("daso output", MFD_CLOEXEC)), before_(::dup(STDOUT_FILENO)) {
  DASO_ASSERT(memory_.open() && before_.open());
  std::fflush(stdout);  // what came before belongs there
  DASO_ASSERT(::dup2(memory_.get(), STDOUT_FILENO) == STDOUT_FILENO);
}

CapturedOutput::~CapturedOutput() {
  std::fflush(stdout);
  ::dup2(before_.get(), STDOUT_FILENO);
}

std::string CapturedOutput::text() const {
  std::fflush(stdout);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0;
       (bytes = ::pread(memory_.get(), part.data(), part.size(), std::ssize(text))) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

}  // namespace daso::verify
