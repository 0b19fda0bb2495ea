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

  /// Before the first rank_variables().
  static constexpr const char* kChoosePort = "port=$((20000 + $$ % 10000)); ";

  /// What launchers set for one of two processes of a host.
  static std::string rank_variables(const std::string& rank) {
    return "WORLD_SIZE=2 RANK=" + rank + " LOCAL_RANK=" + rank +
           " LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port ";
  }

  /// As torchrun starts both. `second`: what is added to the second one's command.
  static std::string torchrun(const std::string& command, const std::string& second = "") {
    const auto rank = [&](const std::string& r) {
      return rank_variables(r) + "TORCHELASTIC_RUN_ID=none " + command + (r == "1" ? second : "") +
             " & p" + r + "=$!; ";
    };
    return kChoosePort + rank("0") + rank("1") + "wait $p1; wait $p0";
  }
};

}  // namespace convoy
