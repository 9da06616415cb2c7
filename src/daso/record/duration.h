// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// How long something took or will take, to the second. What is no number, or below 0, counts as 0.
namespace daso {

// For a line that has little room: 45 s, 6:15 min, 3:05 h.
std::string short_duration(double seconds);

// What people say for a time of two minutes and more: 4 min 12 s, 3 h 5 min; else "". It stands
// beside the seconds themselves.
std::string duration_text(double seconds);

}  // namespace daso
