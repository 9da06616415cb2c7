// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "daso/comm/world_options.h"

// What belongs to a program and not to a library: the main function of a rank, and what is set for
// a whole process. A process whose main function is somebody else's (a Python module's) joins by
// World::join(), which changes nothing of its environment, log level or signal handlers.
namespace daso {

class World;
class Worlds;

// How many threads a rank has at most, as measured on ranks that train.
inline constexpr int kThreadsOfRank = 40;

// The main function of a rank: sets the process up, joins the world, runs the body, leaves. Prints
// what went wrong and returns the exit code of docs/errors.md. Leaves by _Exit when the world is
// broken. A closed connection is an error here and no SIGPIPE, and where the output of all ranks
// goes to one stream that of all but rank 0 goes to standard error.
int rank_main(const WorldOptions& options, const std::function<int(World&)>& body);
// The same for a body that goes on in the next world when one has broken (worlds.h). It joins the
// first one by itself.
int rank_main(const WorldOptions& options, const std::function<int(Worlds&)>& body);
// The same with the options' defaults and the launcher's backend, in the world that the launcher's
// variables tell of (daso run, torchrun, mpirun, srun); without any a world of one.
int rank_main(const std::function<int(World&)>& body);
int rank_main(const std::function<int(Worlds&)>& body);

// What rank_main() settles of LibTorch for the whole process; a user's own variables stand. For
// programs that join a World by themselves, at the beginning of main. A host of another kind sets
// TORCH_FR_BUFFER_SIZE=0 itself.
//
// LibTorch records every operation in a table that it changes without a lock, so that two threads
// which use Gloo on two groups can crash the process. The record is of no use to us: it is switched
// off, before the first operation, for the variable is read once. And quiet_libtorch().
void set_up_process();

// LibTorch writes a stack trace for every connection that fails. We say the same in one line, so it
// is to be silent, unless TORCH_CPP_LOG_LEVEL asks it to speak.
void quiet_libtorch();

}  // namespace daso
