#include <ATen/Version.h>
#include <arrow/config.h>
#include <gnu/libc-version.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cli/commands.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/bench/rates.h"
#include "convoy/comm/cuda.h"
#include "convoy/comm/nccl/nccl_engine.h"
#include "convoy/doctor/diagnosis.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/hosts/secret.h"
#include "convoy/machine/cores.h"
#include "convoy/report/live_line.h"
#include "convoy/tuning/matrix_kernels.h"

namespace convoy::cli {
namespace {

struct DoctorOptions {
  bool quick = false;
  bool json = false;
};

std::vector<std::pair<std::string, std::string>> versions(const machine::Gpus& gpus) {
#ifdef __clang__
  const char* compiler = "clang " __clang_version__;
#else
  const char* compiler = "g++ " __VERSION__;
#endif
  std::vector<std::pair<std::string, std::string>> out{
      {"convoy", CONVOY_VERSION},
      {"torch", fmt::format("{} (kernels for {})", TORCH_VERSION, at::get_cpu_capability())},
      {"arrow", arrow::GetBuildInfo().version_string},
      {"openssl", launch::crypto_library()},
      {"compiler", compiler},
      {"libc", ::gnu_get_libc_version()}};
  if (!gpus.driver.empty()) out.emplace_back("nvidia driver", gpus.driver);
  return out;
}

/// Finding about a launcher's environment, as `convoy train` would read it.
std::vector<doctor::Finding> check_launcher() {
  using doctor::Severity;
  try {
    const auto ranks = launch::detect_environment();
    if (!ranks.launched()) return {};
    return {{Severity::Note, "launcher",
             fmt::format("processes started here are rank {} of {} ({})", ranks.rank,
                         ranks.world_size, ranks.source),
             ""}};
  } catch (const UsageError& error) {
    return {{Severity::Problem, "launcher", error.what(), "convoy train cannot start like this"}};
  }
}

/// Checks NCCL. Opens torch's CUDA library and the NCCL plugin only where there is a GPU.
doctor::EngineCheck nccl(int num_gpus) {
  if (num_gpus == 0) return {"nccl", false, "no GPU is visible"};
  if (const auto& cuda = comm::open_cuda(); cuda.num_devices == 0) {
    return {"nccl", false, cuda.why_none};
  }
  std::string why;
  if (!comm::has_nccl(&why)) return {"nccl", false, why};
  return {"nccl", true, "processes with a GPU each"};
}

/// Memory that may be taken for measuring.
int64_t spare_bytes(const doctor::Diagnosis& d) {
  const int64_t free = d.host.available_bytes, limit = d.cgroup.memory_bytes;
  return limit > 0 ? std::min(free, limit) : free;
}

void append(std::vector<doctor::Finding>& all, const std::vector<doctor::Finding>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

doctor::Diagnosis diagnose(const DoctorOptions& options) {
  doctor::Diagnosis out;
  out.host = machine::read_host();
  out.cgroup = machine::read_cgroup();
  out.limits = machine::read_limits();
  out.gpus = machine::find_gpus();
  out.versions = versions(out.gpus);
  out.matrix_kernels = tuning::matrix_kernels();
  const int num_gpus = out.gpus.num_visible;
  out.engines = doctor::host_engines();
  out.engines.push_back(nccl(num_gpus));
  const int threads = machine::usable_cores(out.cgroup, out.limits);
  append(out.findings, doctor::check_cpus(out.host, out.cgroup, out.limits));
  append(out.findings, doctor::check_memory(out.host, out.cgroup));
  append(out.findings, doctor::check_gpus(out.gpus));
  append(out.findings, doctor::check_engines(out.engines, num_gpus));
  append(out.findings, doctor::check_limits(out.cgroup, out.limits, out.gpus));
  append(out.findings, doctor::check_variables(launch::process_variable, threads));
  append(out.findings, check_launcher());
  if (options.quick) return out;
  report::LiveLine line(stderr);
  out.rates = bench::measure_rates(threads, num_gpus > 0 ? comm::open_cuda().num_devices : 0,
                                   spare_bytes(out),
                                   [&](const std::string& what) { line.show(what + " ..."); });
  append(out.findings, doctor::check_rates(out.rates));
  return out;
}

int run_doctor(const DoctorOptions& options) {
  const auto diagnosis = diagnose(options);
  if (options.json) {  // names and variables may hold any bytes
    const auto json = doctor::to_json(diagnosis);
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", doctor::to_text(diagnosis));
  }
  return doctor::worst(diagnosis.findings) == doctor::Severity::Problem ? 1 : 0;
}

}  // namespace

void add_doctor(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<DoctorOptions>();
  auto* command = app.add_subcommand("doctor", "Show this machine's hardware, limits and problems");
  command->add_flag("--quick", options->quick, "skip measurements");
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Checks processors, memory, GPUs and their links, limits, engines and environment variables, "
      "and times matrix products and copies for some seconds. Exit code 1 if there is a problem.\n"
      "Examples:\n  convoy doctor\n  convoy doctor --quick\n  convoy doctor --json > "
      "machine.json\n");
  command->callback([options, &run] { run = [options] { return run_doctor(*options); }; });
}

}  // namespace convoy::cli
