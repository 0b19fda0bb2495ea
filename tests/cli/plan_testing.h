#pragma once

#include <string>

#include "tests/cli/command_testing.h"

namespace convoy {

class PlanCommand : public CommandTest {
 protected:
  static std::string options(const std::string& more) {
    return " --family gpt2 --n_embd 64 --n_layer 4 --n_head 4 --n_positions 64 --vocab_size 500 "
           "--random_tokens 40000 --block_size 64 --per_device_train_batch_size 4 --threads 1 " +
           more;
  }

  Json plan(const std::string& more, int code = 0) {
    EXPECT_EQ(run("plan --json" + options(more) + " > plan.json"), code) << output_;
    return json("plan.json");
  }

  static Json family(const Json& plan, const std::string& name) {
    for (const auto& row : plan["families"]) {
      if (row["family"] == name) return row;
    }
    return {};
  }
};

}  // namespace convoy
