#include <ostream>

#include "tests/cli/ranks_testing.h"

namespace convoy {
namespace {

class VerifyCommand : public Ranks {
 protected:
  int verify(const std::string& more, const std::string& fault = "") {
    write_file(folder_ / "run.toml",
               "[train]\nper_device_train_batch_size = 4\n"
               "learning_rate = 1e-2\nseed = 7\n"
               "[data]\npath = \"syn\"\n"
               "[model]\nd_model = 16\nn_layer = 4\nn_head = 2\n"
               "dropout = 0.1\nbody = \"gpt2\"\n[parallel]\nthreads = 1\n");
    return shell(fault + "$convoy verify run.toml " + more);
  }
};

TEST_F(VerifyCommand, FindsTheSameBitsInDistributedDataParallel) {
  ASSERT_EQ(verify("--nproc 2"), 0) << output_;
  expect("holds");
  expect("bits");
  expect("The model is cut: --model.n_layer 2;");
}

TEST_F(VerifyCommand, FindsTensorRanksEqualToRounding) {
  ASSERT_EQ(verify("--tensor_parallel_size 2 --whole"), 0) << output_;
  expect("to rounding: tensor ranks add parts of products");
  EXPECT_FALSE(says("The model is cut"));
}

TEST_F(VerifyCommand, PrintsJson) {
  ASSERT_EQ(verify("--nproc 2 --zero 2 --gradient_accumulation_steps 2 --json 2>/dev/null"), 0)
      << output_;
  const auto found = parse_json(output_, "what it printed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0]["same_bits"].get<bool>());
  EXPECT_EQ(found[0]["promised"], "bits");
}

TEST_F(VerifyCommand, TriesEveryLayout) {
  ASSERT_EQ(verify("--nproc 2 --all-layouts --steps 2"), 0) << output_;
  for (const char* layout :
       {"2 data", "zero 3", "2 tensor", "sequence_parallel", "2 context", "2 pipeline",
        "zero_bubble", "offloaded to disk", "threads", "gradient_checkpointing"}) {
    expect(layout);
  }
  EXPECT_FALSE(says("BROKEN"));
}

/// A wrong number that a rank computes somewhere, in a layout.
struct Mutation {
  const char* fault;
  const char* layout;
};

void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.fault << " " << mutation.layout;
}

class VerifyFinds : public VerifyCommand, public ::testing::WithParamInterface<Mutation> {};

TEST_P(VerifyFinds, AMutation) {
  const auto& [fault, layout] = GetParam();
  const std::string options = std::string("--nproc 2 --steps 2 ") + layout;
  EXPECT_EQ(verify(options, std::string("CONVOY_FAULT=") + fault + " "), 1) << output_;
  EXPECT_TRUE(says("BROKEN")) << output_;
}

INSTANTIATE_TEST_SUITE_P(
    Engine, VerifyFinds,
    ::testing::Values(
        // A gradient is counted twice by one rank: in its backward, and where ranks add.
        Mutation{"double@1:backward:1", ""}, Mutation{"double@0:backward:2", ""},
        Mutation{"double@1:reduce:1", ""}, Mutation{"double@0:reduce:2", "--strategy ddp"},
        Mutation{"double@1:backward:1", "--zero 2 --gradient_accumulation_steps 2"},
        Mutation{"double@1:reduce:2", "--zero 3"},
        // A rank computes with other weights than the rest, or keeps stale ones.
        Mutation{"double@1:forward:1", ""}, Mutation{"double@1:gather:2", "--zero 3"},
        Mutation{"skip@1:update:1", ""}, Mutation{"skip@1:update:1", "--zero 1"},
        Mutation{"skip@0:update:2", "--zero 3"}, Mutation{"double@1:update:1", "--zero 1"},
        Mutation{"double@0:offload:1", "--zero 1 --offload_optimizer disk --offload_dir ."},
        // A part of a layer is added twice.
        Mutation{"double@1:layer:1", "--tensor_parallel_size 2"},
        Mutation{"double@0:layer_backward:1", "--tensor_parallel_size 2"},
        Mutation{"double@1:layer:1", "--tensor_parallel_size 2 --sequence_parallel"},
        Mutation{"double@0:layer_backward:2", "--tensor_parallel_size 2 --sequence_parallel"},
        // A stage computes with other weights, or counts its gradients twice.
        Mutation{"double@0:forward:1",
                 "--pipeline_parallel_size 2 --gradient_accumulation_steps 2"},
        Mutation{"double@1:backward:1",
                 "--pipeline_parallel_size 2 --gradient_accumulation_steps 2"},
        Mutation{"double@0:backward_weight:1",
                 "--pipeline_parallel_size 2 --gradient_accumulation_steps 4 "
                 "--pipeline_schedule zero_bubble"}));

TEST_F(VerifyCommand, SaysWhatItCannotCompare) {
  EXPECT_EQ(verify("--nproc 1"), 2);
  expect("one rank is the reference itself; try --nproc 2");
  EXPECT_EQ(verify("--nproc 3 --tensor_parallel_size 2"), 2);
  expect("do not divide");
  EXPECT_EQ(verify("--nproc 2 --data.path nothing"), 1);
  expect("data.path = nothing is not there");
}

}  // namespace
}  // namespace convoy
