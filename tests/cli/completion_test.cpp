#include <gmock/gmock.h>

#include "convoy/base/files.h"
#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

using testing::HasSubstr;
using testing::Not;

class Completion : public CommandTest {
 protected:
  /// What bash offers for the last of these words.
  std::string offered(const std::string& words) {
    EXPECT_EQ(run("completion bash > completion.bash"), 0) << output_;
    write_file(folder_ / "ask.bash",
               "source completion.bash\nCOMP_WORDS=(" + words +
                   ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_convoy\necho \"${COMPREPLY[@]}\"\n");
    EXPECT_EQ(shell("bash ask.bash"), 0);
    return output_;
  }
};

TEST_F(Completion, OffersCommandsOptionsAndTheirValues) {
  EXPECT_EQ(offered("convoy tr"), "train\n");
  EXPECT_EQ(offered("convoy train --learning_r"), "--learning_rate\n");
  EXPECT_EQ(offered("convoy train --lr_scheduler_type cosine_with_r"), "cosine_with_restarts\n");
  EXPECT_EQ(offered("convoy train --output_d"), "--output_dir\n");
  EXPECT_EQ(offered("convoy train --block_s"), "--block_size\n");
  EXPECT_EQ(offered("convoy predict --requ"), "--requests\n");
  EXPECT_EQ(offered("convoy train --family gpt2"), "gpt2\n");
  EXPECT_EQ(offered("convoy data sess"), "sessions\n");
  EXPECT_EQ(offered("convoy launch --nproc-per-n"), "--nproc-per-node\n");
  EXPECT_EQ(offered("convoy launch --nproc-per-node 2 tr"), "train\n");
  EXPECT_EQ(offered("convoy launch --nproc-per-node 2 train run.toml --learning_r"),
            "--learning_rate\n");
  EXPECT_THAT(offered("convoy doctor --le"), Not(HasSubstr("learning_rate")));
}

TEST_F(Completion, EveryShellHasAllCommands) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    ASSERT_EQ(run("completion " + shell), 0) << output_;
    for (const char* word : {"train", "doctor", "learning_rate", "max-new-tokens", "adamw_bf16"}) {
      EXPECT_THAT(output_, HasSubstr(word)) << shell;
    }
  }
}

}  // namespace
}  // namespace convoy
