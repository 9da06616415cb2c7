// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/mpi/mpi_check.h"

#include <array>
#include <string>

#include "daso/base/error.h"

namespace daso::mpi {
namespace {

std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "unknown error";
  return {text.data(), static_cast<std::size_t>(length)};
}

// Errors that come from what the ranks asked for. The communicator is still good, though the other
// ranks of a collective may now wait for us until their limit.
bool is_misuse(int code) {
  int kind = MPI_ERR_UNKNOWN;
  if (MPI_Error_class(code, &kind) != MPI_SUCCESS) return false;
  return kind == MPI_ERR_TRUNCATE || kind == MPI_ERR_COUNT || kind == MPI_ERR_TYPE ||
         kind == MPI_ERR_TAG || kind == MPI_ERR_RANK || kind == MPI_ERR_ROOT ||
         kind == MPI_ERR_BUFFER || kind == MPI_ERR_OP || kind == MPI_ERR_ARG;
}

}  // namespace

void mpi_check(int code, std::source_location where) {
  if (code == MPI_SUCCESS) return;
  if (is_misuse(code)) {
    throw ConfigError(fmt::format(
        "MPI refused an operation: {}; all ranks of a group must call the same operations with "
        "the same types and sizes (at {}:{})",
        text_of(code), where.file_name(), where.line()));
  }
  throw PeerError(
      fmt::format("MPI failed: {} (at {}:{})", text_of(code), where.file_name(), where.line()));
}

MpiComm make_communicator(const std::vector<int>& ranks) {
  MPI_Group raw_world = MPI_GROUP_NULL;
  mpi_check(MPI_Comm_group(MPI_COMM_WORLD, &raw_world));
  const MpiGroup world(raw_world);
  MPI_Group raw_members = MPI_GROUP_NULL;
  mpi_check(
      MPI_Group_incl(world.get(), static_cast<int>(ranks.size()), ranks.data(), &raw_members));
  const MpiGroup members(raw_members);
  MPI_Comm raw = MPI_COMM_NULL;
  mpi_check(MPI_Comm_create_group(MPI_COMM_WORLD, members.get(), /*tag=*/0, &raw));
  MpiComm communicator(raw);
  mpi_check(MPI_Comm_set_errhandler(raw, MPI_ERRORS_RETURN));
  return communicator;
}

}  // namespace daso::mpi
