#include <string>

#include "tests/cli/plan_testing.h"

// Plans with costs that `convoy profile` measured before.
namespace convoy {
namespace {

TEST_F(PlanCommand, PlansWithWhatWasMeasuredBefore) {
  ASSERT_EQ(run("profile --ranks 2 --output costs.json" + options("")), 0) << output_;
  expect("wrote costs.json; plan with it");
  expect("2 ranks x 1 thread");
  const auto first = plan("--ranks 2 --profile costs.json");
  EXPECT_EQ(first, plan("--ranks 2 --profile costs.json"));  // nothing is measured
  EXPECT_EQ(first, plan("--profile costs.json"));            // of as many ranks
  for (const char* name : {"ddp", "zero 3", "pipeline", "tensor"}) {
    EXPECT_FALSE(family(first, name).is_null()) << name;
  }
  EXPECT_EQ(run("train --pipeline_parallel_size 2 --pipeline_costs costs.json --max_steps 1 "
                "--save_strategy no" +
                options("--gradient_accumulation_steps 2")),
            0)
      << output_;
  write_file(folder_ / "other.json", R"({"nothing": {}})");
  EXPECT_EQ(run("plan --ranks 2 --pipeline_costs other.json" + options("")), 2) << output_;
  expect("this model has no block 'nothing'");
  const auto refused = [&](const std::string& more, const std::string& why) {
    EXPECT_EQ(run("plan --profile costs.json" + options(more)), 2) << output_;
    expect(why);
  };
  refused("--ranks 1", "was measured for 2 ranks, and this is 1 rank");
  refused("--ranks 2 --n_layer 3", "parameters in 5 blocks");
  refused("--ranks 2 --block_size 32", "costs.json was measured with rows of");
  refused("--ranks 2 --bf16", "was measured in fp32, and this is bf16");
  refused("--ranks 2 --resid_pdrop 0", "with resid_pdrop = 0.1, and this is resid_pdrop = 0");
  refused("--ranks 2 --threads 2", "with 1 thread a rank, and this is 2 threads");
  refused("--ranks 2 --on t4-16", "does not go with --cluster and --on");
  auto costs = read_file(folder_ / "costs.json");
  const auto change = [&](const char* key) {
    auto json = parse_json(costs, "costs.json");
    json["profile"][key] = "another";
    write_file(folder_ / "costs.json", json.dump());
  };
  const auto garbled = [&](const auto& garble, int code, const std::string& why) {
    auto json = parse_json(costs, "costs.json");
    garble(json);
    write_file(folder_ / "costs.json", json.dump());
    EXPECT_EQ(run("plan --profile costs.json" + options("")), code) << output_;
    expect(why);
  };
  garbled([](Json& json) { json["sums_inside"]["seconds_per_byte"] = 0; }, 1,
          "says that sums over ranks take no time");
  garbled([](Json& json) { json["names"] = Json::array(); }, 1, "has no costs of any block");
  garbled([](Json& json) { json["names"].erase(0); }, 2, "is a profile of another model");
  garbled([](Json& json) { json["update_seconds"] = -1; }, 1, "update_seconds is -1");
  garbled([](Json& json) { json["accumulate_seconds"] = -1; }, 1, "accumulate_seconds is -1");
  garbled([](Json& json) { json["micro_batches"][0]["rows"] = 0; }, 1, "costs of 0 rows");
  change("machine");
  refused("--ranks 2", "was measured on another, and this is ");
  change("torch");
  refused("--ranks 2", "was measured with torch another, and this is ");
  write_file(folder_ / "costs.json", "{\"profile\": {}, \"micro_batches\": []}");
  EXPECT_EQ(run("plan --ranks 2 --profile costs.json" + options("")), 1) << output_;
  expect("is no whole profile");
}

TEST_F(PlanCommand, ALaunchedProfileIsOfTheRanksAndThreadsThatTheLauncherSet) {
  const std::string model =
      " --family gpt2 --n_embd 16 --n_layer 1 --n_head 2 --n_positions 16 --vocab_size 50 "
      "--random_tokens 4000 --block_size 16 --sequence_parallel --strategy dp";
  ASSERT_EQ(shell("OMP_NUM_THREADS=3 $convoy launch -n 1 profile --output one.json" + model), 0)
      << output_;
  expect("1 rank x 3 threads");
  ASSERT_EQ(run("plan --profile one.json" + model + " --sequence_parallel false --strategy auto"),
            0)
      << output_;
  expect("1 device of this processor");
  EXPECT_EQ(run("plan --profile \"\"" + model), 2);
  expect("got nothing; try without it");
  EXPECT_NE(run("launch -n 2 profile --ranks 3 --output two.json" + model), 0);
  expect("--ranks 3, but convoy launch started 2; try without it");
}

}  // namespace
}  // namespace convoy
