// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/golden_case.h"
#include "cli/verdict.h"

// Golden cases that need no ranks, run through the functions that training uses.
namespace daso {

Verdict verify(const ScheduleCase& golden);
Verdict verify(const PeriodCase& golden);
// Bit for bit, on every instruction set that this processor has.
Verdict verify(const WireCase& golden);

}  // namespace daso
