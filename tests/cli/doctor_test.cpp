#include <cstdlib>

#include "convoy/base/text.h"
#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

class Doctor : public CommandTest {};

TEST_F(Doctor, ShowsTheMachineAndMeasuresIt) {
  ASSERT_EQ(run("doctor"), 0) << output_;
  for (const char* part : {"processor", "memory", "threads  yes", "gloo     yes",
                           "GEMM fp32, GFLOP/s", "1 thread", "open files", "OMP_NUM_THREADS"}) {
    if (std::string(part) != "OMP_NUM_THREADS" || std::getenv(part)) expect(part);
  }
  EXPECT_EQ(output_.find("timing"), std::string::npos) << "progress is for terminals";
}

TEST_F(Doctor, JsonHasNumbersThatMakeSense) {
  ASSERT_EQ(shell("$convoy doctor --json 2> errors"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "errors"), "");
  const Json all = parse_json(output_, "doctor");
  EXPECT_GE(all["cpu"]["usable_threads"].get<int>(), 1);
  EXPECT_GT(all["memory"]["total_bytes"].get<int64_t>(), 100 << 20);
  EXPECT_LE(all["memory"]["available_bytes"].get<int64_t>(),
            all["memory"]["total_bytes"].get<int64_t>());
  ASSERT_FALSE(all["measured"].empty());
  for (const Json& rate : all["measured"]) {
    for (const char* key : {"gemm_fp32_gflops", "gemm_bf16_gflops", "copy_gb_per_second"}) {
      EXPECT_GT(rate[key].get<double>(), 0.01) << key;
      EXPECT_LT(rate[key].get<double>(), 1e7) << key;
    }
  }
  EXPECT_EQ(all["measured"][0]["device"], "cpu");
  EXPECT_EQ(all["measured"][0]["threads"], 1);
  EXPECT_EQ(all["engines"].size(), 4u);
  if (all["gpus"]["gpus"].empty()) {
    EXPECT_NE(all["gpus"]["why_none"], "");
    EXPECT_FALSE(all["engines"][3]["usable"].get<bool>());
  }
  EXPECT_EQ(all["spaces"]["here"]["path"], folder_.string());
  EXPECT_EQ(all["versions"]["convoy"], "0.1.0");
  EXPECT_NE(all["versions"]["openssl"].get<std::string>().find("libcrypto"), std::string::npos)
      << "not the system's: " << all["versions"]["openssl"];
  EXPECT_GE(all["findings"].size(), 6u);
}

TEST_F(Doctor, ProofsBetweenHostsAreMadeByTheSystemsOpenssl) {
  // The Parquet wheel has one of its own. ld.so says where each library's symbols were found.
  ASSERT_EQ(shell("LD_BIND_NOW=1 LD_DEBUG=bindings $convoy --version 2>&1 | grep 'binding file "
                  "[^ ]*/convoy ' | grep -E '`(HMAC|EVP_sha256|SSL_[a-zA-Z_]*|BIO_[a-z_]*)'"),
            0)
      << output_;
  int from_ssl = 0;
  for (const auto& line : split(trim(output_), '\n')) {
    const bool ssl = line.find("/libssl.so") != std::string::npos;
    from_ssl += ssl;
    EXPECT_TRUE(ssl || line.find("/libcrypto.so") != std::string::npos) << line;
  }
  EXPECT_GT(from_ssl, 5);
}

TEST_F(Doctor, WarningsAreNoFailureAndProblemsAre) {
  EXPECT_EQ(shell("ulimit -n 256; $convoy doctor --quick"), 0) << output_;
  expect("open files");
  expect("256: few");
  expect("1 warning");
  EXPECT_EQ(output_.find("GFLOP/s"), std::string::npos);
  EXPECT_EQ(shell("WORLD_SIZE=4 $convoy doctor --quick"), 1) << output_;
  expect("problem");
  expect("RANK is missing although WORLD_SIZE is set to '4'");
  EXPECT_EQ(shell("RANK=1 WORLD_SIZE=2 MASTER_ADDR=here $convoy doctor --quick"), 0) << output_;
  expect("rank 1 of 2");
  expect("= here: host of rank 0");
  EXPECT_EQ(shell("GLOO_SOCKET_IFNAME=$(printf 'eth\\377') $convoy doctor --quick --json"), 0);
  expect("network interface of Gloo");
}

TEST_F(Doctor, HelpHasExamples) {
  ASSERT_EQ(run("doctor --help"), 0);
  expect("convoy doctor --json");
  EXPECT_EQ(run("doctor --fast"), 2);
  expect("see convoy doctor --help");
}

}  // namespace
}  // namespace convoy
