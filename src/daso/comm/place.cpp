// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/place.h"

#include "daso/base/error.h"
#include "daso/comm/slurm.h"

namespace daso {
namespace {

std::string needed(const Environment& environment, const std::string& name,
                   const std::string& beside) {
  const std::optional<std::string> value = find(environment, name);
  require(value.has_value(),
          "environment variable {} is set but {} is not; a launcher sets both, so unset the one or "
          "set the other",
          beside, name);
  return *value;
}

int needed_number(const Environment& environment, const std::string& name,
                  const std::string& beside) {
  needed(environment, name, beside);
  const int value = *find_integer(environment, name);
  require(value >= 0, "environment variable {} is {}; it must not be negative", name, value);
  return value;
}

struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
};

Place numbers(const Environment& environment, const Names& names, Launcher launcher) {
  Place place;
  place.launcher = launcher;
  place.rank = needed_number(environment, names.rank, names.size);
  place.size = needed_number(environment, names.size, names.rank);
  require(place.size >= 1, "environment variable {} is {}; a world has at least one rank",
          names.size, place.size);
  require(place.rank < place.size,
          "environment variable {} is {} but {} is {}; ranks count from 0 to size - 1", names.rank,
          place.rank, names.size, place.size);
  if (launcher != Launcher::kPyTorch || find(environment, names.local_rank)) {
    place.local_rank = needed_number(environment, names.local_rank, names.rank);
    require(*place.local_rank < place.size,
            "environment variable {} is {} but {} is {}; a node has no more ranks than the world",
            names.local_rank, *place.local_rank, names.size, place.size);
  }
  return place;
}

std::uint16_t port_in(const Environment& environment, const std::string& name) {
  const std::optional<int> port = find_integer(environment, name);
  require(port && *port >= 1 && *port <= 65535,
          "environment variable {} is '{}'; a port lies in 1 ... 65535", name,
          find(environment, name).value_or(""));
  return static_cast<std::uint16_t>(*port);
}

std::optional<Address> given_rendezvous(const Environment& environment) {
  const std::optional<std::string> text = find(environment, "DASO_RENDEZVOUS");
  if (!text) return std::nullopt;
  try {
    return parse_address(*text);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("environment variable DASO_RENDEZVOUS: {}", error.what()));
  }
}

Ports given_ports(const Environment& environment) {
  const std::optional<std::string> text = find(environment, "DASO_PORTS");
  if (!text) return {};
  try {
    return parse_ports(*text);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("environment variable DASO_PORTS: {}", error.what()));
  }
}

bool is_ours(const Environment& environment) {
  const std::optional<std::string> name = find(environment, "DASO_LAUNCHER");
  require(!name || *name == name_of(Launcher::kDaso),
          "environment variable DASO_LAUNCHER is '{}'; only daso run sets it, to '{}', so unset it",
          name.value_or(""), name_of(Launcher::kDaso));
  return name.has_value();
}

// Only our own launcher hosts the store for ranks that another launcher numbers.
StoreAt host_of_given(const Environment& environment) {
  return is_ours(environment) ? StoreAt::kLauncher : StoreAt::kRankZero;
}

bool under_torchrun(const Environment& environment) {
  return find(environment, "TORCHELASTIC_RUN_ID") ||
         find(environment, "TORCHELASTIC_USE_AGENT_STORE");
}

// RANK and WORLD_SIZE: of our launcher, of torchrun, or of anybody who knows what PyTorch reads.
Place pytorch_place(const Environment& environment) {
  Place place = numbers(environment, {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
                        under_torchrun(environment) ? Launcher::kTorchrun : Launcher::kPyTorch);
  const std::string host = needed(environment, "MASTER_ADDR", "RANK");
  needed(environment, "MASTER_PORT", "RANK");
  place.rendezvous = Address{host, port_in(environment, "MASTER_PORT")};
  place.fixed_rendezvous = true;
  const std::optional<Address> other = given_rendezvous(environment);
  require(!other || other->text() == place.rendezvous->text(),
          "environment variables MASTER_ADDR and MASTER_PORT say {} but DASO_RENDEZVOUS says {}; "
          "unset one of them",
          place.rendezvous->text(), other ? other->text() : "");
  const std::string agent = find(environment, "TORCHELASTIC_USE_AGENT_STORE").value_or("");
  const bool hosted = agent == "True" || agent == "true" || agent == "1";
  place.store_at = hosted ? StoreAt::kAgent : StoreAt::kRankZero;
  if (hosted && is_ours(environment)) place.store_at = StoreAt::kLauncher;
  return place;
}

Place mpi_place(const Environment& environment, const Names& names) {
  Place place = numbers(environment, names, Launcher::kMpirun);
  place.one_machine = find_integer(environment, "OMPI_COMM_WORLD_LOCAL_SIZE") == place.size;
  place.one_output = !is_ours(environment);  // else each rank has a pipe to our launcher
  place.rendezvous = given_rendezvous(environment);
  place.store_at = place.rendezvous ? host_of_given(environment) : StoreAt::kOverMpi;
  return place;
}

// The machines of the step, as far as they matter: rank 0's, and another one.
std::vector<std::string> step_hosts(const Environment& environment) {
  constexpr std::size_t kEnough = 2;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    const std::optional<std::string> list = find(environment, name);
    if (list) return slurm_hosts(name, *list, kEnough);
  }
  return {};
}

Address slurm_rendezvous(const Environment& environment, const std::vector<std::string>& hosts,
                         const std::string& step) {
  Address address;
  if (!hosts.empty()) address.host = hosts.front();
  if (const std::optional<std::string> host = find(environment, "MASTER_ADDR")) {
    address.host = *host;
  }
  require(!address.host.empty(),
          "environment variable SLURM_PROCID is set but SLURM_STEP_NODELIST is not; set "
          "DASO_RENDEZVOUS=HOST:PORT to the host of rank 0");
  address.port =
      find(environment, "MASTER_PORT") ? port_in(environment, "MASTER_PORT") : slurm_port(step);
  return address;
}

Place slurm_place(const Environment& environment) {
  const char* size =
      find(environment, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Place place = numbers(environment, {"SLURM_PROCID", size, "SLURM_LOCALID"}, Launcher::kSrun);
  // Several steps of one job may run at once, on the same hosts.
  const std::string step = slurm_step(environment);
  const std::vector<std::string> hosts = step_hosts(environment);
  place.one_machine = hosts.size() == 1;
  if (hosts.size() > 1) place.other_host = hosts[1];
  const std::optional<Address> given = given_rendezvous(environment);
  place.rendezvous = given ? *given : slurm_rendezvous(environment, hosts, step);
  place.store_at = given ? host_of_given(environment) : StoreAt::kRankZero;
  place.job_token = "slurm step " + step;
  return place;
}

std::optional<Place> numbered_place(const Environment& environment) {
  const auto set = [&](const char* name) { return find(environment, name).has_value(); };
  if (set("RANK") || set("WORLD_SIZE")) return pytorch_place(environment);
  if (set("OMPI_COMM_WORLD_RANK") || set("OMPI_COMM_WORLD_SIZE")) {
    return mpi_place(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK"});
  }
  const bool step = in_slurm_step(environment);
  // srun sets PMI_RANK as well where it serves PMI, but only MPICH's mpirun sets the local rank.
  if ((set("PMI_RANK") || set("PMI_SIZE")) && !(step && !set("MPI_LOCALRANKID"))) {
    return mpi_place(environment, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"});
  }
  if (step) return slurm_place(environment);
  return std::nullopt;
}

}  // namespace

std::string name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "none";
    case Launcher::kDaso:
      return "daso";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kPyTorch:
      return "pytorch";
    case Launcher::kMpirun:
      return "mpirun";
    case Launcher::kSrun:
      return "srun";
  }
  return "";
}

std::optional<Place> place_from(const Environment& environment) {
  std::optional<Place> place = numbered_place(environment);
  if (!place) return std::nullopt;
  place->node = find(environment, "DASO_NODE").value_or("");
  place->job_token = find(environment, "DASO_JOB_TOKEN").value_or(place->job_token);
  place->ports = given_ports(environment);
  if (is_ours(environment)) place->launcher = Launcher::kDaso;
  return place;
}

}  // namespace daso
