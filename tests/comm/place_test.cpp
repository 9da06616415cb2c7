// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/place.h"

#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/comm/slurm.h"

namespace daso {
namespace {

const Environment kTorchrun = {
    {"RANK", "3"},         {"WORLD_SIZE", "4"},      {"LOCAL_RANK", "1"},
    {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "run"}};
const Environment kPyTorch = {
    {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "3"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
const Environment kMpich = {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}, {"MPI_LOCALRANKID", "1"}};
const Environment kSrun = {
    {"SLURM_PROCID", "7"},          {"SLURM_STEP_NUM_TASKS", "8"},
    {"SLURM_LOCALID", "3"},         {"SLURM_STEP_ID", "0"},
    {"SLURM_JOB_ID", "45001"},      {"SLURM_STEP_NODELIST", "n[01-04,07],m3"},
    {"SLURM_JOB_NODELIST", "other"}};

// `more` goes over what is there already; an empty value is as good as none.
Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

std::string rendezvous(const Environment& environment) {
  return place_from(environment)->rendezvous->text();
}

// The message of the ConfigError that it must throw.
std::string refusal(const Environment& environment) {
  try {
    place_from(environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

TEST(Place, IsNoneWithoutALauncher) {
  EXPECT_FALSE(place_from({}));
  EXPECT_FALSE(place_from({{"MASTER_ADDR", "n1"}, {"DASO_NODE", "x"}, {"RANK", ""}}));
}

TEST(Place, OfTorchrunLetsRankZeroHostTheStore) {
  const Place place = *place_from(kTorchrun);
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.size, 4);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.rendezvous->text(), "n1:29500");
  EXPECT_EQ(place.store_at, StoreAt::kRankZero);
  EXPECT_EQ(place.launcher, Launcher::kTorchrun);
  EXPECT_EQ(place.node, "");
  EXPECT_EQ(place.job_token, "");
}

TEST(Place, OfPyTorchsVariablesAloneLetsRankZeroHostTheStoreAndNeedsNoLocalRank) {
  const Place place = *place_from(kPyTorch);
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.size, 4);
  EXPECT_FALSE(place.local_rank);
  EXPECT_EQ(place.rendezvous->text(), "n1:29500");
  EXPECT_EQ(place.store_at, StoreAt::kRankZero);
  EXPECT_EQ(place.store_prefix, "");
  EXPECT_EQ(place.launcher, Launcher::kPyTorch);
  EXPECT_EQ(place_from(with(kPyTorch, {{"LOCAL_RANK", "1"}}))->local_rank, 1);
}

TEST(Place, OfTorchrunUsesTheAgentsStoreWhereThereIsOne) {
  for (const char* yes : {"True", "true", "1"}) {
    const Place place = *place_from(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", yes}}));
    EXPECT_EQ(place.store_at, StoreAt::kAgent);
  }
  EXPECT_EQ(place_from(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->store_at,
            StoreAt::kRankZero);
}

TEST(Place, RefusesPortsThatAreNone) {
  EXPECT_THROW(place_from(with(kTorchrun, {{"DASO_PORTS", "many"}})), ConfigError);
}

TEST(Place, OfOurLauncherAddsNodeAndToken) {
  const Place place = *place_from(
      with(kTorchrun,
           {{"DASO_NODE", "node1"}, {"DASO_JOB_TOKEN", "secret"}, {"DASO_LAUNCHER", "daso"}}));
  EXPECT_EQ(place.node, "node1");
  EXPECT_EQ(place.job_token, "secret");
  EXPECT_EQ(place.launcher, Launcher::kDaso);
  EXPECT_EQ(place_from(with(kTorchrun,
                            {{"DASO_LAUNCHER", "daso"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}))
                ->store_at,
            StoreAt::kLauncher);
}

TEST(Place, OfMpirunLearnsTheAddressByMpi) {
  const Place open_mpi = *place_from(kOpenMpi);
  EXPECT_EQ(open_mpi.rank, 2);
  EXPECT_EQ(open_mpi.size, 3);
  EXPECT_EQ(open_mpi.local_rank, 0);
  EXPECT_EQ(open_mpi.store_at, StoreAt::kOverMpi);
  EXPECT_FALSE(open_mpi.rendezvous);
  EXPECT_EQ(open_mpi.launcher, Launcher::kMpirun);
  EXPECT_TRUE(open_mpi.one_output);
  EXPECT_FALSE(place_from(with(kOpenMpi, {{"DASO_LAUNCHER", "daso"}}))->one_output);
  const Place mpich = *place_from(kMpich);
  EXPECT_EQ(mpich.rank, 5);
  EXPECT_EQ(mpich.size, 6);
  EXPECT_EQ(mpich.local_rank, 1);
}

TEST(Place, OfMpirunMeetsAtAGivenRendezvous) {
  const Environment given = with(kOpenMpi, {{"DASO_RENDEZVOUS", "n1:80"}});
  EXPECT_EQ(rendezvous(given), "n1:80");
  EXPECT_EQ(place_from(given)->store_at, StoreAt::kRankZero);
  EXPECT_EQ(place_from(with(given, {{"DASO_LAUNCHER", "daso"}}))->store_at, StoreAt::kLauncher);
}

TEST(Place, OfSrunMeetsAtTheFirstHostOfTheStep) {
  const Place place = *place_from(kSrun);
  EXPECT_EQ(place.rank, 7);
  EXPECT_EQ(place.size, 8);
  EXPECT_EQ(place.local_rank, 3);
  EXPECT_EQ(place.rendezvous->text(), "n01:22495");  // 20000 + FNV-1a of "45001.0" % 10000
  EXPECT_EQ(place.store_at, StoreAt::kRankZero);
  EXPECT_EQ(place.launcher, Launcher::kSrun);
  EXPECT_EQ(place.other_host, "n02");
  EXPECT_FALSE(place.one_machine);
  const Place alone = *place_from(with(kSrun, {{"SLURM_STEP_NODELIST", "n01"}}));
  EXPECT_EQ(alone.other_host, "");
  EXPECT_TRUE(alone.one_machine);
}

TEST(Place, OfSrunKeepsStepsAndJobsApart) {
  const Place step = *place_from(kSrun);
  for (const char* name : {"SLURM_STEP_ID", "SLURM_JOB_ID"}) {
    const Place other = *place_from(with(kSrun, {{name, "45002"}}));
    EXPECT_NE(other.rendezvous->port, step.rendezvous->port) << name;
    EXPECT_NE(other.job_token, step.job_token) << name;
    EXPECT_LT(other.rendezvous->port, 30000);  // below what the kernel gives away by itself
    EXPECT_GE(other.rendezvous->port, 20000);
  }
  EXPECT_NE(step.job_token, "");
  EXPECT_EQ(place_from(with(kSrun, {{"DASO_JOB_TOKEN", "mine"}}))->job_token, "mine");
}

TEST(Place, OfSrunReadsEveryFormOfTheHostList) {
  const auto first = [](const std::string& list) {
    return place_from(with(kSrun, {{"SLURM_STEP_NODELIST", list}}))->rendezvous->host;
  };
  EXPECT_EQ(first("n1"), "n1");
  EXPECT_EQ(first("n1,n2"), "n1");
  EXPECT_EQ(first("a-b[7,9]"), "a-b7");
  EXPECT_EQ(first("n[001-100]"), "n001");
  EXPECT_EQ(first("n[1-2]-ib,m"), "n1-ib");
  EXPECT_EQ(first("r[0-1]n[08-16]"), "r0n08");
  EXPECT_EQ(first(""), "other");  // the job's list
  const auto second = [](const std::string& list) {
    return place_from(with(kSrun, {{"SLURM_STEP_NODELIST", list}}))->other_host;
  };
  EXPECT_EQ(second("n1,n2"), "n2");
  EXPECT_EQ(second("a-b[7,9]"), "a-b9");
  EXPECT_EQ(second("n[099-100]"), "n100");
  EXPECT_EQ(second("n[1]-ib,m"), "m");
  EXPECT_EQ(second("r[0-1]n[8]"), "r1n8");
  for (const char* wrong : {"[1-2", "n[", "n[]", "n[x]", "n[2-1]", "n[-1]", "n[1-2-3]", ","}) {
    EXPECT_NE(refusal(with(kSrun, {{"SLURM_STEP_NODELIST", wrong}})).find(wrong),
              std::string::npos);
  }
}

TEST(Place, OfSrunPrefersAGivenAddress) {
  EXPECT_EQ(rendezvous(with(kSrun, {{"MASTER_PORT", "1234"}})), "n01:1234");
  EXPECT_EQ(rendezvous(with(kSrun, {{"MASTER_ADDR", "m3"}})), "m3:22495");
  EXPECT_EQ(rendezvous(with(kSrun, {{"DASO_RENDEZVOUS", "h:5"}})), "h:5");
}

TEST(Place, OfSrunExistsOnlyInsideAStep) {
  const Environment batch = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}};
  EXPECT_FALSE(place_from(batch));
  EXPECT_FALSE(place_from(with(batch, {{"SLURM_STEP_ID", "4294967291"}})));
  EXPECT_EQ(place_from(with(kSrun, {{"SLURM_STEP_NUM_TASKS", ""}, {"SLURM_NTASKS", "9"}}))->size,
            9);
  // srun may speak PMI as well; that does not make it mpirun.
  EXPECT_EQ(place_from(with(kSrun, {{"PMI_RANK", "7"}, {"PMI_SIZE", "8"}}))->launcher,
            Launcher::kSrun);
}

TEST(Place, IsTheInnermostLaunchers) {
  EXPECT_EQ(place_from(with(with(kSrun, kOpenMpi), kTorchrun))->launcher, Launcher::kTorchrun);
  EXPECT_EQ(place_from(with(kSrun, kOpenMpi))->launcher, Launcher::kMpirun);
  EXPECT_EQ(place_from(with(kSrun, kMpich))->rank, 5);
}

struct Wrong {
  Environment environment;
  const char* variable;  // both stand in the message
  const char* value;
};

TEST(Place, RefusesWrongNumbersByNameAndValue) {
  const std::vector<Wrong> all = {
      {with(kTorchrun, {{"RANK", "4"}}), "RANK", "4"},
      {with(kTorchrun, {{"RANK", "-1"}}), "RANK", "-1"},
      {with(kTorchrun, {{"RANK", "one"}}), "RANK", "one"},
      {with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE", "0"},
      {with(kTorchrun, {{"LOCAL_RANK", "4"}}), "LOCAL_RANK", "4"},
      {with(kTorchrun, {{"MASTER_PORT", "65536"}}), "MASTER_PORT", "65536"},
      {with(kTorchrun, {{"MASTER_PORT", "0"}}), "MASTER_PORT", "0"},
      {with(kTorchrun, {{"DASO_RENDEZVOUS", "n2:1"}}), "DASO_RENDEZVOUS", "n2:1"},
      {with(kTorchrun, {{"DASO_LAUNCHER", "other"}}), "DASO_LAUNCHER", "other"},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "3"}}), "OMPI_COMM_WORLD_RANK", "3"},
      {with(kOpenMpi, {{"DASO_RENDEZVOUS", "nowhere"}}), "DASO_RENDEZVOUS", "nowhere"},
      {with(kSrun, {{"SLURM_PROCID", "8"}}), "SLURM_PROCID", "8"},
      {with(kSrun, {{"SLURM_STEP_ID", "x"}}), "SLURM_STEP_ID", "x"}};
  for (const Wrong& wrong : all) {
    const std::string message = refusal(wrong.environment);
    EXPECT_NE(message.find(wrong.variable), std::string::npos) << message;
    EXPECT_NE(message.find(wrong.value), std::string::npos) << message;
  }
}

TEST(Place, RefusesHalfALauncherAndNamesTheMissingHalf) {
  for (const Environment& whole : {kTorchrun, kOpenMpi, kMpich}) {
    for (const auto& [name, value] : whole) {
      if (name == "TORCHELASTIC_RUN_ID") continue;
      const std::string message = refusal(with(whole, {{name, ""}}));
      EXPECT_NE(message.find(name + " is not"), std::string::npos) << message;
    }
  }
  EXPECT_NE(refusal(with(kSrun, {{"SLURM_LOCALID", ""}})).find("SLURM_LOCALID"), std::string::npos);
  EXPECT_NE(refusal(with(kSrun, {{"SLURM_JOB_ID", ""}})).find("SLURM_JOB_ID"), std::string::npos);
}

TEST(SlurmTasks, AreOneOnEachHost) {
  const Environment one_each = with(kSrun, {{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_NODEID", "4"}});
  const SlurmTasks tasks = one_task_a_host(one_each);
  EXPECT_EQ(tasks.hosts, (std::vector<std::string>{"n01", "n02", "n03", "n04", "n07", "m3"}));
  EXPECT_EQ(tasks.own, 4);
  EXPECT_EQ(slurm_step(one_each), "45001.0");
}

TEST(SlurmTasks, AreRefusedWhereThereAreMore) {
  for (const Environment& wrong :
       {with(kSrun, {{"SLURM_NODEID", "4"}}),  // 8 tasks on 6 hosts
        with(kSrun, {{"SLURM_STEP_NUM_TASKS", "5"}, {"SLURM_NODEID", "0"}}),
        with(kSrun, {{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_NODEID", "6"}}),
        with(kSrun, {{"SLURM_STEP_NUM_TASKS", "6"}}),
        with(kSrun, {{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_NODEID", "x"}})}) {
    EXPECT_THROW(one_task_a_host(wrong), ConfigError);
  }
}

}  // namespace
}  // namespace daso
