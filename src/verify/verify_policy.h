// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/golden_case.h"
#include "verify/verdict.h"

// Golden cases that need no ranks, run through the functions that training uses.
namespace daso::verify {

Verdict verify_case(const ScheduleCase& golden);
Verdict verify_case(const PeriodCase& golden);
// Bit for bit, on every instruction set that this processor has.
Verdict verify_case(const WireCase& golden);

}  // namespace daso::verify
