#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// A simulated CUDA device for tests: see README.md.
namespace convoy::fake_gpu {

/// What the environment asks for: CONVOY_FAKE_GPU=FOLDER:N and FAKE_GPU_OPTIONS=KEY=VALUE,...
struct Options {
  int devices = 1;
  size_t memory = size_t{2} << 30;     ///< bytes of each device
  bool only_counts = false;            ///< mode=count: an error is reported, the operation goes on
  std::string report;                  ///< file to which errors are appended
  std::string counts;                  ///< file to which the counters are appended
  std::string sites;                   ///< file to which each site is appended when first seen
  std::vector<std::string> ignored;    ///< sites whose calls do nothing
  std::vector<std::string> skipped;    ///< void functions of the program that do nothing
  std::vector<std::string> mutations;  ///< faults of the device itself: see README.md
  std::string pretends;                ///< what is wrong with the machine: see README.md
  std::string oom;                     ///< memory runs out under labels that begin so
  size_t held = 0;                     ///< bytes of each device that another program holds
  std::vector<std::string> unknown;    ///< keys that mean nothing
};

/// Reads `text` ("memory=64M,mode=count") on top of `options`. "ignore" may come several times;
/// %p in a file's name becomes the process, %r its rank.
void parse_options(const std::string& text, Options& options);

/// Those of this process; a test may change them.
Options& options();

/// Whether the device has this fault.
bool mutated(std::string_view name);

}  // namespace convoy::fake_gpu
