#include "convoy/bench/run_step.h"

#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/launch/process.h"

namespace convoy::bench {

MeasuredStep run_step(const std::string& config, const std::vector<std::string>& flags,
                      int num_ranks, int64_t steps) {
  auto argv = launch::this_program();
  argv.insert(argv.end(), {"bench", "step"});
  if (!config.empty()) argv.push_back(config);
  argv.insert(argv.end(), {"--json", "--steps", std::to_string(steps), "--warmup", "2"});
  if (num_ranks > 1) argv.insert(argv.end(), {"--nproc", std::to_string(num_ranks)});
  argv.insert(argv.end(), flags.begin(), flags.end());
  const auto result = launch::run_process(argv);
  MeasuredStep out;
  if (!result.ok()) {
    out.failure = first_line(trim(result.err));
    if (out.failure.empty()) out.failure = "it failed without a message";
    return out;
  }
  const auto json = parse_json(result.out, "what bench step printed");
  out.seconds = json.at("step_ms_median").get<double>() / 1e3;
  out.loss = json.at("loss").get<double>();
  out.peak_memory_bytes = json.at("peak_memory_bytes").get<double>();
  out.memory_bytes = json.at("memory_bytes").get<double>();
  out.samples_per_second = json.at("samples_per_second").get<double>();
  out.tokens_per_second = json.at("tokens_per_second").get<double>();
  return out;
}

}  // namespace convoy::bench
