#pragma once

#include "tests/cli/command_testing.h"

namespace convoy {

/// Real processes as ranks, on learnable sessions in `syn`.
class Ranks : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions(300);
  }

  std::string model(const std::string& run) {
    return read_file(folder_ / run / "model.safetensors");
  }

  /// What torchrun sets, for two processes of one host.
  static std::string torchrun(const std::string& command) {
    const auto rank = [&](const std::string& r) {
      return "WORLD_SIZE=2 RANK=" + r + " LOCAL_RANK=" + r +
             " LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "
             "TORCHELASTIC_RUN_ID=none " +
             command + " & p" + r + "=$!; ";
    };
    return "port=$((20000 + $$ % 10000)); " + rank("0") + rank("1") + "wait $p1; wait $p0";
  }
};

}  // namespace convoy
