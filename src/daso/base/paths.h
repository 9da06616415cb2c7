// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"

// What the file system says about paths, and the one way to read a file. std::filesystem throws
// errors of its own; what is wrong here (no permission, links in a circle, a name that is too long)
// becomes a ConfigError that names the path and the reason. Files are written by output_file.h.
namespace daso {

// Links are followed. What is not there, or behind a link that leads nowhere, is none of these.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
bool is_plain_file(const std::filesystem::path& path);

std::int64_t file_bytes(const std::filesystem::path& path);

// What a folder holds, in order of the alphabet, since the system's order means nothing.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// With the folders above it; nothing where it is there already.
void make_folder(const std::filesystem::path& folder);
// A folder that was not there before, and whose parent is: false where the name is taken. Of two
// programs that ask for one name at once, one gets it.
bool make_new_folder(const std::filesystem::path& folder);
// With all that is in it, where it is a folder; nothing where it is not there.
void remove_whole(const std::filesystem::path& path);

// For reading. Refuses all but a plain file: a pipe or a device would let us wait, or read, for
// ever.
FileDescriptor open_file(const std::filesystem::path& path);
// All of its bytes.
std::string read_file(const std::filesystem::path& path);

std::filesystem::path current_folder();
// The program that runs.
std::filesystem::path own_program();

}  // namespace daso
