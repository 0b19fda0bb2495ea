#include "convoy/launch/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/launch/hostlist.h"

namespace convoy::launch {
namespace {

using Variables = std::map<std::string, std::string>;

GetEnv getter(const Variables& variables) {
  return [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

RankEnvironment detect(const Variables& variables) {
  return detect_environment(getter(variables));
}

std::string error_of(const Variables& variables) {
  try {
    detect(variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

void expect_place(const RankEnvironment& env, std::vector<int> place) {
  EXPECT_EQ((std::vector<int>{env.rank, env.world_size, env.local_rank, env.local_world_size,
                              env.node_rank, env.num_nodes}),
            place);
}

const Variables kTorchrun = {
    {"RANK", "5"},        {"WORLD_SIZE", "8"},         {"LOCAL_RANK", "1"},
    {"GROUP_RANK", "1"},  {"LOCAL_WORLD_SIZE", "4"},   {"MASTER_ADDR", "10.0.0.1"},
    {"MASTER_PORT", "4"}, {"TORCHELASTIC_RUN_ID", "x"}};

const Variables kSlurm = {{"SLURM_PROCID", "3"},
                          {"SLURM_NTASKS", "5"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_JOB_NAME", "train"},
                          {"SLURM_JOB_ID", "123456"},
                          {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                          {"SLURM_NODELIST", "n[07-09]"}};

TEST(Environment, IsTheOnlyRankWithoutALauncher) {
  const auto env = detect({});
  expect_place(env, {0, 1, 0, 1, 0, 1});
  EXPECT_FALSE(env.launched());
  EXPECT_EQ(env.source, "none");
  EXPECT_EQ(env.master_addr, "127.0.0.1");
}

TEST(Environment, ReadsTorchrun) {
  const auto env = detect(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                           {"TORCHELASTIC_RESTART_COUNT", "2"},
                                           {"TORCHELASTIC_ERROR_FILE", "/tmp/e.json"}}));
  expect_place(env, {5, 8, 1, 4, 1, 2});
  EXPECT_EQ(env.source, "torchrun");
  EXPECT_EQ(env.master_addr, "10.0.0.1");
  EXPECT_EQ(env.master_port, 4);
  EXPECT_EQ(env.restart_count, 2);
  EXPECT_EQ(env.error_file, "/tmp/e.json");
  EXPECT_TRUE(env.uses_agent_store);
  EXPECT_FALSE(detect(kTorchrun).uses_agent_store);
}

TEST(Environment, ConvoyLaunchIsToldFromTorchrun) {
  const auto env = detect(with(kTorchrun, {{"CONVOY_LAUNCHER", "convoy"},
                                           {"CONVOY_ERROR_FILE", "/tmp/c.json"},
                                           {"TORCHELASTIC_ERROR_FILE", "/tmp/e.json"}}));
  EXPECT_EQ(env.source, "convoy launch");
  EXPECT_EQ(env.error_file, "/tmp/c.json");
}

TEST(Environment, EveryNewStartCounts) {
  const auto env = detect(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"},
                                           {"CONVOY_ROUND", "3"},
                                           {"CONVOY_JOB_START", "1700000000.5"}}));
  EXPECT_EQ(env.restart_count, 3);
  EXPECT_EQ(detect(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})).restart_count, 1);
}

TEST(Environment, AJobKeepsItsIdOverAllStarts) {
  EXPECT_EQ(detect(kTorchrun).job_id, "x");
  EXPECT_EQ(detect(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "none"}})).job_id, "");
  const Variables launched = {{"CONVOY_JOB_START", "1700000000.5"}};
  const Variables again = {{"CONVOY_JOB_START", "1700000000.5"}, {"CONVOY_ROUND", "3"}};
  EXPECT_EQ(detect(with(kTorchrun, launched)).job_id, "x@1700000000.5");
  EXPECT_EQ(detect(with(kTorchrun, again)).job_id, "x@1700000000.5");
  EXPECT_EQ(detect(with(kTorchrun, again)).job_start, 1700000000.5);
  EXPECT_EQ(detect({}).job_id, "");
  EXPECT_EQ(detect({}).job_start, 0);
}

TEST(Environment, TorchrunIsKnownByTheFolderOfItsLogs) {
  const auto agent = [](const std::string& file) {
    return detect(with(kTorchrun, {{"TORCHELASTIC_ERROR_FILE", file}})).agent;
  };
  EXPECT_EQ(agent("/tmp/torchelastic_x/none_k3j4h_56/attempt_0/1/error.json"), "k3j4h_56");
  EXPECT_EQ(agent("/tmp/torchelastic_x/none_k3j4h_56/attempt_2/0/error.json"), "k3j4h_56");
  EXPECT_EQ(agent("/tmp/e.json"), "");
  EXPECT_EQ(agent(""), "");
}

TEST(Environment, RanksSetByHandShareTheHost) {
  const auto env = detect({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  expect_place(env, {1, 2, 1, 2, 0, 1});
  EXPECT_EQ(env.source, "environment");
  EXPECT_EQ(env.master_port, 29500);
}

TEST(Environment, ReadsOpenMpiAndIgnoresItsNodeRank) {
  const auto env = detect({{"OMPI_COMM_WORLD_RANK", "3"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                           {"PMI_RANK", "0"},
                           {"MASTER_ADDR", "a"}});
  expect_place(env, {3, 4, 1, 2, 1, 2});
  EXPECT_EQ(env.source, "MPI (Open MPI)");
}

TEST(Environment, ReadsPmiAndMvapich) {
  const auto pmi = detect(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  expect_place(pmi, {1, 2, 1, 2, 0, 1});
  EXPECT_EQ(pmi.source, "MPI (PMI)");
  const auto mvapich = detect({{"MV2_COMM_WORLD_RANK", "1"},
                               {"MV2_COMM_WORLD_SIZE", "3"},
                               {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                               {"MV2_COMM_WORLD_LOCAL_SIZE", "3"}});
  expect_place(mvapich, {1, 3, 1, 3, 0, 1});
  EXPECT_EQ(mvapich.source, "MPI (MVAPICH2)");
}

/// Variables that a program finds under these launchers, by their documentation.
const Variables kFlux = {
    {"FLUX_TASK_RANK", "5"},  {"FLUX_JOB_SIZE", "8"},    {"FLUX_TASK_LOCAL_ID", "1"},
    {"FLUX_JOB_NNODES", "2"}, {"FLUX_JOB_ID", "f2oGj9"}, {"PMI_RANK", "5"},
    {"PMI_SIZE", "8"}};
const Variables kLsf = {{"JSM_NAMESPACE_RANK", "7"},
                        {"JSM_NAMESPACE_SIZE", "12"},
                        {"JSM_NAMESPACE_LOCAL_RANK", "1"},
                        {"JSM_NAMESPACE_LOCAL_SIZE", "6"},
                        {"LSB_JOBID", "1234567"},
                        {"PMIX_NAMESPACE", "3"},
                        {"LSB_MCPU_HOSTS", "batch1 1 a01n07 42 a01n08 42"}};
const Variables kPals = {{"PALS_RANKID", "6"},     {"PMI_RANK", "6"},
                         {"PMI_SIZE", "8"},        {"PALS_LOCAL_RANKID", "2"},
                         {"PALS_LOCAL_SIZE", "4"}, {"PBS_JOBID", "98765.pbs-01"}};

TEST(Environment, ReadsFlux) {
  const auto env = detect(with(kFlux, {{"MASTER_ADDR", "n7"}}));
  EXPECT_EQ(env.source, "Flux");
  expect_place(env, {5, 8, 1, 4, 1, 2});
  EXPECT_EQ(env.master_addr, "n7");
  EXPECT_EQ(env.job_name, "Flux f2oGj9");
  EXPECT_NE(error_of(kFlux).find("try MASTER_ADDR=<host of rank 0>"), std::string::npos);
  EXPECT_EQ(copies_started(getter(kFlux)), 8);
}

TEST(Environment, ReadsJsrunOfLsf) {
  const auto env = detect(kLsf);
  EXPECT_EQ(env.source, "LSF (jsrun)");
  expect_place(env, {7, 12, 1, 6, 1, 2});
  EXPECT_EQ(env.master_addr, "a01n07") << "the host of the script is no rank's";
  EXPECT_EQ(env.master_port, 15000 + 4567);
  EXPECT_EQ(detect(with(kLsf, {{"LSB_MCPU_HOSTS", "a01n07 42"}})).master_addr, "a01n07");
  EXPECT_EQ(copies_started(getter(kLsf)), 12);
}

TEST(Environment, ReadsPalsOfPbs) {
  const auto folder = unique_folder("convoy-pbs");
  make_folder(folder);
  write_file(folder / "nodes", "x3001c0s1b0n0\nx3001c0s7b0n0\n");
  const auto variables = with(kPals, {{"PBS_NODEFILE", (folder / "nodes").string()}});
  const auto env = detect(variables);
  EXPECT_EQ(env.source, "PBS (PALS)");
  expect_place(env, {6, 8, 2, 4, 1, 2});
  EXPECT_EQ(env.master_addr, "x3001c0s1b0n0");
  EXPECT_EQ(env.job_name, "PBS (PALS) 98765.pbs-01");
  EXPECT_NE(error_of(kPals).find("try MASTER_ADDR=<host of rank 0>"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Environment, SchedulersThatLieAreToldByTheVariable) {
  EXPECT_NE(error_of(with(kLsf, {{"JSM_NAMESPACE_RANK", "12"}})).find("JSM_NAMESPACE_RANK is 12"),
            std::string::npos);
  EXPECT_NE(error_of(with(kFlux, {{"FLUX_JOB_SIZE", "many"}})).find("FLUX_JOB_SIZE is 'many'"),
            std::string::npos);
  Variables lone = kPals;
  lone.erase("PMI_SIZE");
  EXPECT_NE(error_of(lone).find("PMI_SIZE is missing although PALS_RANKID is set"),
            std::string::npos);
}

TEST(Environment, ReadsSlurmWithUnevenNodes) {
  const auto env = detect(kSlurm);
  expect_place(env, {3, 5, 1, 2, 1, 3});
  EXPECT_EQ(env.source, "SLURM");
  EXPECT_EQ(env.master_addr, "n07");
  EXPECT_EQ(env.master_port, 15000 + 3456);
  const auto last =
      detect(with(kSlurm, {{"SLURM_PROCID", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "2"}}));
  expect_place(last, {4, 5, 0, 1, 2, 3});
}

TEST(Environment, EachStepOfASlurmJobHasAPortAndAName) {
  std::set<int> ports;
  std::set<std::string> names, endpoints;
  const auto add = [&](const std::string& job, const std::string& step) {
    const auto variables = with(kSlurm, {{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}});
    const auto env = detect(variables);
    ports.insert(env.master_port);
    names.insert(env.job_name);
    endpoints.insert(slurm_endpoint(getter(variables)).value());
    EXPECT_GE(env.master_port, 15000);
    EXPECT_LT(env.master_port, 25000);
  };
  for (int step = 0; step < 40; ++step) add("123456", std::to_string(step));
  for (int job = 123457; job < 123487; ++job) add(std::to_string(job), "0");
  add("123456", "4294967290");  // an interactive step
  EXPECT_EQ(ports.size(), 71);
  EXPECT_EQ(names.size(), 71);
  EXPECT_EQ(endpoints.size(), 71);
}

TEST(Environment, RanksOfMpirunInsideASlurmJobAgreeOnThePort) {
  // Those beside mpirun are outside of the step that has the others.
  const Variables mpi{{"OMPI_COMM_WORLD_RANK", "0"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"SLURM_JOB_ID", "77"}};
  EXPECT_EQ(detect(mpi).master_port, detect(with(mpi, {{"SLURM_STEP_ID", "3"}})).master_port);
  const auto one = detect(with(mpi, {{"PMIX_NAMESPACE", "prterun-n07-41@1"}}));
  const auto other = detect(with(mpi, {{"PMIX_NAMESPACE", "prterun-n07-52@1"}}));
  EXPECT_NE(one.master_port, other.master_port);
  EXPECT_EQ(one.job_name, "prterun-n07-41@1");
}

TEST(Environment, SlurmOnOneHostStaysOnLoopback) {
  const auto env = detect(with(kSlurm, {{"SLURM_TASKS_PER_NODE", "5"}, {"SLURM_NODEID", "0"}}));
  expect_place(env, {3, 5, 1, 5, 0, 1});
  EXPECT_EQ(env.master_addr, "127.0.0.1");
}

TEST(Environment, SlurmsOwnPmiIsTakenForSlurm) {
  EXPECT_EQ(detect(with(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}})).source, "SLURM");
}

TEST(Environment, ExplicitMasterWins) {
  const auto env = detect(with(kSlurm, {{"MASTER_ADDR", "other"}, {"MASTER_PORT", "77"}}));
  EXPECT_EQ(env.master_addr, "other");
  EXPECT_EQ(env.master_port, 77);
}

TEST(Environment, AnInteractiveSlurmShellIsNoLauncher) {
  for (const char* name : {"bash", "interactive"}) {
    EXPECT_FALSE(detect(with(kSlurm, {{"SLURM_JOB_NAME", name}})).launched()) << name;
  }
  EXPECT_FALSE(detect(with(kSlurm, {{"SLURM_NTASKS", "1"}})).launched());
  EXPECT_FALSE(detect({{"SLURM_PROCID", "0"}}).launched());
}

TEST(Environment, LaunchersFindEachOtherUnderSlurm) {
  const auto endpoint = [](const Variables& variables) {
    return slurm_endpoint(getter(variables)).value_or("none");
  };
  EXPECT_EQ(endpoint(kSlurm), "n07:28456");
  EXPECT_EQ(endpoint(with(kSlurm, {{"SLURM_STEP_NODELIST", "n[08-09]"}})), "n08:28456");
  EXPECT_EQ(endpoint(with(kSlurm, {{"SLURM_NODELIST", ""}})), "none");
  EXPECT_EQ(endpoint(with(kSlurm, {{"SLURM_NODELIST", ","}})), "none");
  EXPECT_EQ(endpoint(kTorchrun), "none");
}

TEST(Environment, TellsWhetherSeveralCopiesWereStarted) {
  const auto copies = [](const Variables& variables) { return copies_started(getter(variables)); };
  EXPECT_EQ(copies({}), 1);
  EXPECT_EQ(copies(kSlurm), 5);
  EXPECT_EQ(copies(with(kSlurm, {{"SLURM_JOB_NAME", "bash"}})), 1);
  EXPECT_EQ(copies({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "3"}}), 3);
}

TEST(Environment, TorchrunInsideSlurmWins) {
  EXPECT_EQ(detect(with(kSlurm, kTorchrun)).source, "torchrun");
}

TEST(Environment, WrongValuesNameTheVariable) {
  const std::vector<std::pair<Variables, std::vector<std::string>>> cases = {
      {{{"RANK", "1"}}, {"WORLD_SIZE is missing", "RANK is set to '1'"}},
      {{{"WORLD_SIZE", "2"}}, {"RANK is missing", "WORLD_SIZE is set to '2'"}},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {"RANK is 2 but WORLD_SIZE is 2", "from 0 to 1"}},
      {{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, {"RANK is 'x'", "whole number of at least 0"}},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"RANK is '-1'"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE is '0'", "at least 1"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, {"WORLD_SIZE is '99999999999'"}},
      {with(kTorchrun, {{"LOCAL_RANK", "4"}}), {"LOCAL_RANK is 4 but LOCAL_WORLD_SIZE is 4"}},
      {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), {"LOCAL_WORLD_SIZE is 9 but WORLD_SIZE is 8"}},
      {with(kTorchrun, {{"MASTER_PORT", "70000"}}), {"MASTER_PORT is '70000'", "at most 65535"}},
      {with(kSlurm, {{"SLURM_NODEID", "3"}}), {"SLURM_NODEID is 3"}},
      {with(kSlurm, {{"SLURM_NODELIST", "n[07"}}), {"n[07", "'[' without ']'"}},
      {{{"PMI_RANK", "0"}}, {"PMI_SIZE is missing"}},
      {{{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       {"MASTER_ADDR is missing", "2 hosts"}},
  };
  for (const auto& [variables, expected] : cases) {
    const std::string message = error_of(variables);
    for (const std::string& part : expected) {
      EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
    }
  }
}

TEST(Hostlist, Expands) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(expand_hostlist("alone"), (Hosts{"alone"}));
  EXPECT_EQ(expand_hostlist("node[03-05,9],login"),
            (Hosts{"node03", "node04", "node05", "node9", "login"}));
  EXPECT_EQ(expand_hostlist("r[1-2]n[08-10].x"),
            (Hosts{"r1n08.x", "r1n09.x", "r1n10.x", "r2n08.x", "r2n09.x", "r2n10.x"}));
  EXPECT_EQ(expand_hostlist(""), Hosts{});
}

TEST(Hostlist, RefusesNonsense) {
  for (const char* text : {"n[1", "n1]", "n[2-1]", "n[a]", "n[]", "n[[1]]", "n[1-]",
                           "n[0-99999999]", "n[1-9999][1-9999]", "n[0-9223372036854775807]"}) {
    EXPECT_THROW(expand_hostlist(text), UsageError) << text;
  }
}

TEST(Hostlist, ExpandsCounts) {
  EXPECT_EQ(expand_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  for (const char* text : {"", "x", "2(x", "2(x)", "0", "2(x-1)", "1(x99999999999)"}) {
    EXPECT_THROW(expand_counts(text), UsageError) << text;
  }
}

}  // namespace
}  // namespace convoy::launch
