#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"

namespace convoy {

namespace fs = std::filesystem;

/// Runs the program as a person would, in a private folder.
class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGINT, SIG_DFL);  // a test in the background has it ignored
    folder_ = unique_folder("convoy-test");
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Runs shell words in the folder; $convoy is the program. output_ gets stdout and stderr.
  int shell(const std::string& words) {
    const std::string command = "cd " + folder_.string() + " && convoy=" + CONVOY_BINARY_DIR +
                                "/bin/convoy; exec 2>&1 < /dev/null; " + words;
    output_.clear();
    FILE* pipe = popen(command.c_str(), "r");
    if (!pipe) return -1;
    std::array<char, 4096> buffer;
    while (size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) {
      output_.append(buffer.data(), got);
    }
    return WEXITSTATUS(pclose(pipe));
  }

  int run(const std::string& arguments) { return shell("$convoy " + arguments); }

  /// Whether the output has `part`, wherever its lines were broken.
  bool says(const std::string& part) const {
    return with_single_spaces(output_).find(with_single_spaces(part)) != std::string::npos;
  }

  void expect(const std::string& part) const {
    EXPECT_TRUE(says(part)) << part << "\nis not in:\n" << output_;
  }

  /// Weights of a run, as its file has them.
  std::string model_of(const std::string& run) const {
    return read_file(folder_ / run / "model.safetensors");
  }

  Json json(const std::string& file) const { return parse_json(read_file(folder_ / file), file); }

  /// By step; what was done again after a death counts.
  std::vector<double> losses(const std::string& run) const {
    std::map<int64_t, double> of_step;
    for (const auto& line : split(read_file(folder_ / run / "log.jsonl"), '\n')) {
      if (line.empty()) continue;
      const auto entry = parse_json(line, "log.jsonl");
      if (!entry.contains("loss")) continue;
      of_step[entry["step"].get<int64_t>()] = entry["loss"].get<double>();
    }
    std::vector<double> out;
    for (const auto& [step, loss] : of_step) out.push_back(loss);
    return out;
  }

  /// To `first` on the first step, to 1e-4 later.
  static void expect_near(const std::vector<double>& expected, const std::vector<double>& got,
                          double first = 1e-6) {
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i] / expected[i], 1, i == 0 ? first : 1e-4) << "step " << i + 1;
    }
  }

  /// Waits until the run in `out` has made some steps.
  void wait_for_steps() const {
    const auto log = folder_ / "out/log.jsonl";
    for (int i = 0; i < 600 && !(fs::exists(log) && fs::file_size(log) > 1000); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  /// Learnable sessions in `syn`.
  void make_sessions(int rows = 60) {
    ASSERT_EQ(run("data synthetic --output syn --items 30 --rows " + std::to_string(rows)), 0)
        << output_;
  }

  fs::path folder_;
  std::string output_;

 private:
  static std::string with_single_spaces(const std::string& text) {
    std::string out;
    for (const char c : text) {
      const bool space = std::isspace(static_cast<unsigned char>(c));
      if (!space) out += c;
      if (space && (out.empty() || out.back() != ' ')) out += ' ';
    }
    return out;
  }
};

/// A model that trains in no time.
inline const std::string kTiny =
    " --data.path syn --d_model 8 --n_layer 1 --n_head 2 --dropout 0.1 "
    "--per_device_train_batch_size 8 --per_device_eval_batch_size 16 --logging_steps 1 "
    "--eval_strategy no --threads 1 ";

}  // namespace convoy
