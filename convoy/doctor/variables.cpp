#include <fmt/format.h>

#include "convoy/base/text.h"
#include "convoy/doctor/findings.h"

namespace convoy::doctor {
namespace {

struct Variable {
  const char* name;
  const char* meaning;
};

constexpr Variable kVariables[] = {
    {"OMP_PROC_BIND", "OpenMP pins threads: ranks of one host may be pinned to the same cores"},
    {"GOMP_CPU_AFFINITY", "OpenMP pins threads: ranks of one host may be pinned to the same cores"},
    {"KMP_AFFINITY", "OpenMP pins threads: ranks of one host may be pinned to the same cores"},
    {"MKL_NUM_THREADS", "threads of matrix products, whatever OMP_NUM_THREADS says"},
    {"CONVOY_FAST_MKL",
     "0: fp32 products by the kernels that MKL takes on such a processor by itself"},
    {"OMP_WAIT_POLICY", "how threads of OpenMP wait; convoy leaves GOMP_SPINCOUNT alone then"},
    {"MALLOC_CONF", "settings of jemalloc instead of convoy's own"},
    {"LD_PRELOAD", "libraries that come before all others"},
    {"TMPDIR", "folder of temporary files"},
    {"NCCL_DEBUG", "NCCL prints what it does"},
    {"NCCL_P2P_DISABLE", "NCCL does without direct copies between GPUs"},
    {"NCCL_SOCKET_IFNAME", "network interface of NCCL"},
    {"GLOO_SOCKET_IFNAME", "network interface of Gloo, for ranks on several hosts"},
    {"MASTER_ADDR", "host of rank 0"},
    {"MASTER_PORT", "port of rank 0"},
    {"CONVOY_ERROR_FILE", "where a failing rank leaves its reason"},
};

Finding check_threads(const std::string& value, int threads) {
  Finding out{Severity::Note, "OMP_NUM_THREADS",
              fmt::format("= {}: threads of each rank inside operations", value), ""};
  int64_t number = 0;
  if (!parse_number(trim(split(value, ',').front()), number) || number < 1) {
    out.severity = Severity::Warning;
    out.text = fmt::format("= '{}' is no number of threads", value);
    out.advice = "unset OMP_NUM_THREADS";
  } else if (number > threads) {
    out.severity = Severity::Warning;
    out.text += fmt::format(", but there are {} cores for all ranks together", threads);
    out.advice = fmt::format("OMP_NUM_THREADS={}, or unset it", threads);
  }
  return out;
}

}  // namespace

std::vector<Finding> check_variables(const std::function<const char*(const char*)>& get,
                                     int threads) {
  std::vector<Finding> out;
  if (const char* value = get("OMP_NUM_THREADS")) out.push_back(check_threads(value, threads));
  if (const char* value = get("CUDA_VISIBLE_DEVICES")) {
    const std::string chosen = trim(value);
    const bool none = chosen.empty() || chosen.front() == '-';
    out.push_back({Severity::Note, "CUDA_VISIBLE_DEVICES",
                   none ? fmt::format("= '{}' hides every GPU", chosen)
                        : fmt::format("= {}: GPUs that may be used, in this order", chosen),
                   ""});
  }
  for (const auto& [name, meaning] : kVariables) {
    if (const char* value = get(name)) {
      out.push_back({Severity::Note, name, fmt::format("= {}: {}", value, meaning), ""});
    }
  }
  return out;
}

}  // namespace convoy::doctor
