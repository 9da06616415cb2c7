// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Standard input, output and error of this process. What is printed and reaches nobody is a failure
// like any other: a command whose results are lost does not end with 0.
namespace daso {

// For the beginning of main: opens those of the three that are closed, so that no file or socket of
// ours gets their numbers. What is then written there is lost, and counts as such.
void hold_standard_streams();

// Flushes standard output. What cannot be written is dropped and remembered, so that a long run
// goes on without its log.
void flush_output();

// "standard output could not be written (No space left on device); what was printed is lost".
std::string lost_output(int error);

// For the end: flushes standard output. Where anything was lost it says so on standard error, and a
// code of 0 becomes 1. A reader that has left, as head does, had what it wanted.
int checked_output(int code);

}  // namespace daso
