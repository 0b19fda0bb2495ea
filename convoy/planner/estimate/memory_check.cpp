#include "convoy/planner/estimate/memory_check.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/job/job.h"
#include "convoy/launch/environment.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/machine/resident.h"
#include "convoy/parallel/zero/state_bytes.h"

namespace convoy::planner {

namespace {

// Measured: what an instruction takes, and a micro-batch's rows.
constexpr double kInstructionBytes = 120;
constexpr double kMicroBatchBytes = 1e3;

std::mutex advice_mutex;
std::string advice_of_run;  // of the training under way

std::string advice() {
  const std::lock_guard lock(advice_mutex);
  return "try " +
         (advice_of_run.empty() ? "a smaller batch, shorter rows, or fewer ranks" : advice_of_run);
}

std::string for_each_of(int ranks) {
  return ranks > 1 ? fmt::format(" for each of {} ranks", ranks) : "";
}

parallel::Mesh mesh_here(const options::ParallelArguments& parallel,
                         const launch::RankEnvironment& environment) {
  return environment.world_size > 1 ? job::mesh_of(parallel, environment) : parallel::Mesh();
}

/// Number of stages and tensor ranks that share a model's parameters.
double num_holders(const options::ParallelArguments& parallel) {
  return static_cast<double>(parallel.num_stages()) * parallel.num_tensor_ranks();
}

/// Bytes that each rank keeps of a parameter; where ranks share out experts the least, as if all
/// parameters were of experts.
double kept_bytes(const options::ParallelArguments& parallel,
                  const launch::RankEnvironment& environment) {
  return parallel::state_bytes_of_parameter(mesh_here(parallel, environment), parallel.parallelism,
                                            parallel.facts(), /*of_expert=*/true) /
         num_holders(parallel);
}

/// Bytes that each rank keeps of a frozen parameter.
double frozen_bytes(const options::ParallelArguments& parallel,
                    const launch::RankEnvironment& environment) {
  return parallel::bytes_of_frozen_parameter(mesh_here(parallel, environment), parallel.parallelism,
                                             parallel.facts()) /
         num_holders(parallel);
}

/// Bytes of an element of a table that is kept by rows: no gradient, and each row on one rank.
double kept_by_rows(const options::ParallelArguments& parallel,
                    const launch::RankEnvironment& environment) {
  return (sizeof(float) + static_cast<double>(parallel.state_bytes)) /
         mesh_here(parallel, environment).degree(parallel::kState);
}

/// Whether a rank keeps all state of its parameters.
bool keeps_all(const options::ParallelArguments& parallel,
               const launch::RankEnvironment& environment) {
  return kept_bytes(parallel, environment) ==
         parallel::state_bytes_of_parameter(parallel::Mesh(), {}, parallel.facts());
}

}  // namespace

double state_bytes(const std::vector<MemoryPart>& parts, const options::ParallelArguments& parallel,
                   const launch::RankEnvironment& environment) {
  const double kept = kept_bytes(parallel, environment);
  const double frozen = frozen_bytes(parallel, environment);
  double out = 0;
  for (const auto& part : parts) {
    const bool by_rows = parallel.parallelism.row_tables && part.by_rows;
    out += part.parameters * (by_rows ? kept_by_rows(parallel, environment) : kept);
    out += part.frozen * frozen;
  }
  return out;
}

void check_memory(const std::vector<MemoryPart>& parts,
                  const options::ParallelArguments& parallel) {
  if (parallel.only_asks) return;
  const auto limit = machine::memory_limit();
  const auto environment = launch::detect_environment();
  const bool all = keeps_all(parallel, environment), rows = parallel.parallelism.row_tables;
  const double needed = state_bytes(parts, parallel, environment);
  const auto ranks = job::stages_are_threads(parallel, environment) ? parallel.num_stages()
                                                                    : environment.local_world_size;
  const auto device = static_cast<double>(parallel.device_memory);
  const bool beyond_device = parallel.device_memory > 0 && needed > device;
  const bool fits = limit.bytes == 0 || needed * ranks <= static_cast<double>(limit.bytes);
  if (fits && !beyond_device) return;
  const double trained = kept_bytes(parallel, environment);
  const double frozen = frozen_bytes(parallel, environment);
  const auto& largest =
      *std::max_element(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
        return a.parameters * trained + a.frozen * frozen <
               b.parameters * trained + b.frozen * frozen;
      });
  const double weight_bytes = parallel.low_precision ? 2 : sizeof(float);
  // Replicas on one host hold the state twice in its memory; a split over ranks does not.
  std::string splits;
  if (all && environment.world_size > 1) {
    splits = fmt::format("what convoy plan --ranks {} finds, or ", environment.world_size);
  } else if (all && beyond_device) {
    splits = "more ranks with --zero 3, or ";
  }
  fail<UsageError>("train", "{} {}, {} {}{}, but {}; try {}{}", largest.what,
                   human_bytes(largest.parameters * sizeof(float) + largest.frozen * weight_bytes),
                   rows  ? "what row_tables, zero and offload leave of the model's state"
                   : all ? "the whole model with gradient and the optimizer's states"
                         : "what zero and offload leave of the model's state",
                   human_bytes(needed), for_each_of(ranks),
                   beyond_device
                       ? fmt::format("device_memory = {}", human_bytes(parallel.device_memory))
                       : limit.text,
                   splits, largest.advice);
}

parallel::ModelFactory check_memory(parallel::ModelFactory factory,
                                    const options::TrainingArguments& arguments, int ranks) {
  return [factory = std::move(factory), steps = arguments.gradient_accumulation_steps, ranks] {
    auto blocks = factory();
    const auto limit = machine::memory_limit();
    // Forward, backward and accumulation of each block.
    const double bytes =
        static_cast<double>(steps) * ranks *
        (kMicroBatchBytes + 3 * kInstructionBytes * static_cast<double>(blocks.size()));
    if (limit.bytes > 0 && bytes > static_cast<double>(limit.bytes)) {
      fail<UsageError>("train",
                       "gradient_accumulation_steps = {}: a step of so many micro-batches takes "
                       "{}{} before any number is computed, but {}; try a smaller one",
                       steps, human_bytes(bytes / ranks), for_each_of(ranks), limit.text);
    }
    return blocks;
  };
}

std::string to_take_less(const options::TrainingArguments& arguments, int num_ranks,
                         int ranks_here) {
  const auto& parallel = arguments.parallel;
  std::vector<std::string> out;
  if (arguments.per_device_train_batch_size > 1) {
    out.push_back("a smaller per_device_train_batch_size with more gradient_accumulation_steps");
  }
  if (!arguments.gradient_checkpointing) out.push_back("gradient_checkpointing");
  if (!arguments.bf16 && !arguments.fp16) out.push_back("bf16");
  if (parallel.parallelism.offload.optimizer == parallel::Place::Device) {
    out.push_back("offload_optimizer = disk");
  }
  if (num_ranks > 1 && parallel.parallelism.zero < 3 && parallel.num_stages() == 1)
    out.push_back("zero = 3");
  if (ranks_here > 1) out.push_back("fewer ranks on a host");
  out.push_back("shorter rows");
  out.back() = (out.size() > 1 ? "or " : "") + out.back();
  return join(out);
}

void set_memory_advice(const std::string& advice) {
  const std::lock_guard lock(advice_mutex);
  advice_of_run = advice;
}

std::string little_memory(int64_t needed, int64_t available) {
  const auto environment = launch::detect_environment();
  return fmt::format(
      "[memory] {} holds {} and takes {} more, but {} are left on this host: the kernel may end it "
      "without another word; {}",
      environment.world_size > 1
          ? fmt::format("rank {} of {}", environment.rank, environment.world_size)
          : "this process",
      human_bytes(machine::resident_bytes()), human_bytes(needed), human_bytes(available),
      advice());
}

std::string out_of_memory(const std::string& details) {
  constexpr std::string_view kAsked = "tried to allocate ";  // of the host's allocator
  const auto at = details.find(kAsked);
  if (at == std::string::npos && !details.empty()) {
    return fmt::format("[memory] the device has no memory left; {}; torch says: {}", advice(),
                       details);
  }
  const int64_t asked =
      at == std::string::npos ? 0 : std::atoll(details.c_str() + at + kAsked.size());
  return fmt::format(
      "[memory] there is no memory left{}; this process holds {}, {}, and {} are free on this "
      "host; {}",
      asked > 0 ? fmt::format(" for {} more", human_bytes(asked)) : "",
      human_bytes(machine::resident_bytes()), machine::memory_limit().text,
      human_bytes(machine::available_memory()), advice());
}

}  // namespace convoy::planner
