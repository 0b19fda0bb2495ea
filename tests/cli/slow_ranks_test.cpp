#include "tests/cli/ranks_testing.h"

namespace convoy {
namespace {

class SlowRank : public Ranks {
 protected:
  int train(const std::string& fault) {
    return shell(fault +
                 "$convoy train --data.path syn --d_model 8 --n_layer 2 --n_head 2 "
                 "--threads 1 --max_steps 45 --logging_steps 45 --save_strategy no "
                 "--output_dir out --overwrite_output_dir --nproc 2");
  }
};

TEST_F(SlowRank, IsNamedOnceWithWhatItsHostTells) {
  ASSERT_EQ(train("CONVOY_FAULT=lag@1:forward:1 "), 0) << output_;
  expect("warning: rank 1 on ");
  expect(" times the median of ");
  expect("(20 steps up to step 20)");
  expect(" for disks, used ");
  expect(" percent to disks (iowait), and runs at ");
  EXPECT_FALSE(says("up to step 40")) << output_;
  EXPECT_FALSE(says("warning: rank 0 on ")) << output_;
}

}  // namespace
}  // namespace convoy
