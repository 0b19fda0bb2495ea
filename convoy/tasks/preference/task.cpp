#include "convoy/tasks/preference/task.h"

#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/adapter_config.h"
#include "convoy/checkpoint/base_fingerprint.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/models/causal_head.h"
#include "convoy/models/wrapper.h"
#include "convoy/tasks/memory.h"
#include "convoy/tasks/preference/pairs.h"
#include "convoy/tasks/preference/scorer.h"
#include "convoy/tasks/resumed_task.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// Text that identifies the weights of the model in `start`, or drawn by `seed`, and of the adapter
/// to continue.
std::string text_of_weights(const fs::path& start, const fs::path& adapter,
                            const std::string& seed) {
  if (start.empty()) return "seed " + seed;
  auto out = trim(checkpoint::base_fingerprint(start));
  if (adapter.empty()) return out;
  const auto files = {formats::kAdapterFile, checkpoint::kAdapterConfig};
  for (const char* file : files) {
    out += fmt::format(" {:016x}", hash_text(read_file(adapter / file)));
  }
  return out;
}

}  // namespace

PreferenceTask::PreferenceTask(std::string family)
    : ChatTask(std::move(family), "preference", /*per_sample=*/2) {}

void PreferenceTask::set_defaults(options::TrainingArguments& training) const {
  training.learning_rate = 1e-6;
  training.logging_steps = training.usual_logging_steps = 10;
}

void PreferenceTask::declare_data(OptionTable& t) {
  declare_files(t, "pairs", "chosen and rejected, and prompt unless both begin with it");
  options_.declare(t);
  loss_.declare(t);
  answer_dpo_flags(t);
}

void PreferenceTask::settle(OptionTable& table) {
  ChatTask::settle(table);
  loss_.settle(table);
  if (loss_.disable_dropout) lora_.disable_dropout();
  const auto plain = [&](const char* key) { return table.find(key)->plain(); };
  if (const auto& folder = loss_.ref_model_name_or_path; !folder.empty()) {
    other_reference_.emplace(folder,
                             ReferenceModel::Needs{.tokenizer = tokenizer_ ? &*tokenizer_ : nullptr,
                                                   .num_ids = config_->num_ids(),
                                                   .max_length = block_size()});
  }
  seed_ = plain("train.seed");
  place_.output = plain("output.dir");
  place_.quiet = plain("output.quiet") == "true";
  place_.precision = plain("train.bf16") == "true"   ? "bf16"
                     : plain("train.fp16") == "true" ? "fp16"
                                                     : "fp32";
  place_.resumed = folders_to_resume(plain("train.resume_from_checkpoint"), place_.output);
}

Run PreferenceTask::prepare(const options::ParallelArguments& parallel) {
  if (const int ranks = parallel.num_context_ranks(); ranks > 1) {
    fail<UsageError>("data",
                     "both answers of a pair share a row, which does not go with "
                     "context_parallel_size = {}, whose ranks share out its positions; try "
                     "--context_parallel_size 1",
                     ranks);
  }
  if (const int ranks = parallel.num_expert_ranks(); ranks > 1) {
    fail<UsageError>("data",
                     "the log probabilities of the reference are computed row by row, which does "
                     "not go with expert_parallel_size = {}; try --expert_parallel_size 1",
                     ranks);
  }
  auto out = ChatTask::prepare(parallel);
  out.files.inputs.push_back(loss_.ref_model_name_or_path);
  out.labelled = {};  // Hugging Face's models have no such loss
  out.scorer = [] { return std::make_unique<PreferenceScorer>(); };
  const auto place = place_of_reference();
  check_kept(*reference_, place);
  if (will_compute(*reference_, place)) {
    out.first_pass = first_pass(out);
    if (other_reference_) {
      check_memory(*config_, out.factory(), parallel, {other_reference_->memory()});
    }
  }
  out.begin = [reference = reference_, place](train::Trainer& trainer) {
    provide(*reference, place, trainer);
  };
  return out;
}

planner::FirstPass PreferenceTask::first_pass(const Run& run) const {
  planner::FirstPass out{.when = "while it computes the reference's log-probabilities",
                         .data = run.train_data};
  if (!other_reference_) return out;
  out.when += fmt::format(" with {} beside it", loss_.ref_model_name_or_path);
  out.other = other_reference_->factory();
  return out;
}

ReferencePlace PreferenceTask::place_of_reference() const {
  auto out = place_;
  const auto identity = [](const std::string& weights, const std::string& config) {
    return fmt::format("{} config {:016x}", weights, hash_text(config));
  };
  if (tokenizer_) out.padding = padding();
  if (other_reference_) {
    out.model = loss_.ref_model_name_or_path;
    out.weights = identity(text_of_weights(out.model, "", ""), other_reference_->config());
    out.open = [other = *other_reference_](const train::Trainer& trainer,
                                           std::vector<std::string>& notes) {
      return other.open(trainer, notes);
    };
    return out;
  }
  out.model = start_.empty() ? "the model that was drawn" : start_;
  out.weights =
      identity(text_of_weights(start_, lora_.adapter(), seed_), config_of_blocks().dump());
  return out;
}

Run PreferenceTask::open(const fs::path& folder, OptionTable& table) {
  auto out = ChatTask::open(folder, table);
  out.labelled = {};
  out.scorer = [] { return std::make_unique<PreferenceScorer>(); };
  return out;
}

void PreferenceTask::read_data(const options::ParallelArguments& parallel, Run& out) {
  if (parallel.data_may_be_random && !data_.train.empty() && !fs::exists(data_.train)) {
    fail<UsageError>("data", "there is no {}, and pairs cannot be drawn; try --data.train FILE",
                     data_.train);
  }
  ChatTask::read_data(parallel, out);
}

std::shared_ptr<const ChatRows> PreferenceTask::read_rows(const std::string& file) const {
  const auto chat = dated_template();
  std::vector<std::string> unheard;
  const PairReader reader{.chat = chat ? &*chat : nullptr,
                          .tokenizer = &tokenizer_of(file),
                          .options = &options_,
                          .max_length = block_size()};
  return std::make_shared<ChatRows>(reader.read(file, notes_ ? *notes_ : unheard));
}

DerivedColumns PreferenceTask::columns_of(const std::shared_ptr<const ChatRows>& all,
                                          const RowsOfConversations& rows) const {
  const auto add = [reference = reference_, keys = reference_->need(all, rows)](
                       const std::vector<int64_t>& wanted, nn::Bundle& batch) {
    std::vector<uint64_t> here;
    for (const int64_t row : wanted) here.push_back(keys[static_cast<size_t>(row)]);
    batch[nn::kReferenceLogProbs] = reference->of(here);
  };
  return {.names = {nn::kReferenceLogProbs}, .add = add};
}

NamedData PreferenceTask::evaluation_data(const std::string& where) {
  auto out = ChatTask::evaluation_data(where);
  if (!opened_.empty() && out.data) take_kept(out.name);
  return out;
}

void PreferenceTask::take_kept(const std::string& data) const {
  std::error_code error;
  for (const auto& folder : {opened_, opened_ / ".."}) {
    const auto file = folder / kReferenceFile;
    if (!fs::is_regular_file(file, error)) continue;
    const auto values = KeptReference::read(file).of(reference_->keys());
    if (values.defined()) return reference_->set(values);
  }
  const auto trained = other_length();
  fail<UsageError>("tasks",
                   "{} has not kept the reference's log-probabilities of all pairs of {}, without "
                   "which these have no loss; try {}",
                   opened_.string(), data,
                   trained ? fmt::format("--max_length {}, as in training", *trained)
                           : "to name them as --data.valid in training");
}

Json PreferenceTask::config_of_blocks() const {
  auto out = ChatTask::config_of_blocks();
  if (!loss_.disable_dropout) return out;
  auto& keys = config_->wrapper() == nullptr ? out : out[models::kTextConfig];
  for (auto& [key, value] : keys.items()) {
    if (key.find("drop") != std::string::npos && value.is_number()) value = 0.0;
  }
  return out;
}

std::function<void(const nn::BlockList& blocks)> PreferenceTask::finish_blocks() const {
  return [options = loss_.loss](const nn::BlockList& blocks) {
    models::learn_preferences(blocks, *options);
  };
}

}  // namespace convoy::tasks
