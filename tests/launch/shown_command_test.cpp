#include "convoy/launch/supervise/shown_command.h"

#include <gtest/gtest.h>

namespace convoy::launch {
namespace {

TEST(ShownCommand, BlanksWhatLooksLikeASecret) {
  EXPECT_EQ(shown_command({"convoy", "train", "--token", "abc", "--max_steps", "3"}),
            "convoy train --token *** --max_steps 3");
  EXPECT_EQ(shown_command({"--hub-token=abc", "--train.api_key=x=y", "-x"}),
            "--hub-token=*** --train.api_key=*** -x");
  EXPECT_EQ(shown_command({"--use_auth_token", "--bf16", "--token"}),
            "--use_auth_token --bf16 --token");
  EXPECT_EQ(shown_command({"sh", "-c", "HF_TOKEN=hf_0123456789abcdef run"}),
            "sh -c HF_TOKEN=*** run");
}

TEST(ShownCommand, KeepsWhatDoesNot) {
  for (const std::string word : {"--max_new_tokens", "--pad_token", "hf_model", "--token-file",
                                 "out/shf_0123456789abcdef", "--"}) {
    EXPECT_EQ(shown_command({word, "abc"}), word + " abc");
  }
}

}  // namespace
}  // namespace convoy::launch
