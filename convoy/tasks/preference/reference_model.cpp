#include "convoy/tasks/preference/reference_model.h"

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/checkpoint/adapter_config.h"
#include "convoy/checkpoint/carried.h"
#include "convoy/models/causal_head.h"
#include "convoy/nn/declare.h"
#include "convoy/nn/documents.h"
#include "convoy/tasks/pretrained.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

constexpr const char* kReferenceOption = "ref_model_name_or_path";

std::shared_ptr<const models::LanguageModelConfig> config_in(const fs::path& folder) {
  if (checkpoint::is_adapter(folder)) {
    fail<UsageError>("tasks",
                     "{} = {} is an adapter; try convoy checkpoint merge {} --output MODEL, then "
                     "that model",
                     kReferenceOption, folder.string(), folder.string());
  }
  const auto file = folder / "config.json";
  if (!fs::exists(file)) {
    fail<UsageError>("tasks",
                     "{} = {} is no folder with config.json and model.safetensors; names of models "
                     "on a hub are not fetched: download it, then give its folder",
                     kReferenceOption, folder.string());
  }
  std::shared_ptr<const models::LanguageModelConfig> out =
      models::read_model_config(checkpoint::read_config(file), file.string());
  if (out->objective() == models::Objective::NextToken) return out;
  fail<UsageError>("tasks", "{} = {} is a {}, which does not predict the next token",
                   kReferenceOption, folder.string(), out->family());
}

/// Throws UsageError unless the same ids stand for the same tokens.
void check_same_tokens(const fs::path& folder, const tokenizers::Tokenizer& used) {
  if (!tokenizers::holds_tokenizer(folder)) return;
  const auto own = tokenizers::Tokenizer::load(folder);
  if (own.fingerprint() == used.fingerprint()) return;
  for (int32_t id = 0; id < used.vocab_size(); ++id) {
    const bool is_known = id < own.vocab_size() && own.has(id);
    if (used.has(id) == is_known && (!is_known || used.token(id) == own.token(id))) continue;
    fail<UsageError>("tasks",
                     "{} = {} has another tokenizer than this run: its id {} is {}, and here {}; "
                     "expected a model of the same tokens",
                     kReferenceOption, folder.string(), id,
                     is_known ? "'" + own.token(id) + "'" : std::string("none"),
                     used.has(id) ? "'" + used.token(id) + "'" : std::string("none"));
  }
}

}  // namespace

ReferenceModel::ReferenceModel(const fs::path& folder, const Needs& needs)
    : folder_(folder), config_(config_in(folder)) {
  const int64_t num_ids = needs.tokenizer ? needs.tokenizer->vocab_size() : needs.num_ids;
  if (config_->num_ids() < num_ids) {
    fail<UsageError>("tasks",
                     "{} = {} has a vocab_size of {}, and this run has {} ids; expected a model of "
                     "the same tokens",
                     kReferenceOption, folder.string(), config_->num_ids(), num_ids);
  }
  if (needs.tokenizer != nullptr) check_same_tokens(folder, *needs.tokenizer);
  if (needs.max_length > config_->position_limit()) {
    fail<UsageError>("tasks",
                     "max_length = {} is beyond the {} positions of {} = {}; try --max_length {}",
                     needs.max_length, config_->position_limit(), kReferenceOption, folder.string(),
                     config_->position_limit());
  }
  nn::check_take_documents(config_->make_blocks(), /*num_context_ranks=*/1);
}

std::string ReferenceModel::config() const {
  return config_->to_json().dump();
}

parallel::ModelFactory ReferenceModel::factory() const {
  return [config = config_] {
    auto blocks = config->make_blocks();
    models::learn_preferences(blocks, nn::PreferenceOptions());
    for (const auto& param : nn::params_of(blocks)) param->freeze();
    return blocks;
  };
}

planner::MemoryPart ReferenceModel::memory() const {
  double count = 0;
  for (const auto& param : nn::params_of(config_->make_blocks())) {
    count += static_cast<double>(param->spec().num_elements());
  }
  return {fmt::format("the reference, {} = {}, takes", kReferenceOption, folder_.string()), 0,
          "a smaller reference, or without it the model that the run starts from", false, count};
}

std::unique_ptr<train::Trainer> ReferenceModel::open(const train::Trainer& trainer,
                                                     std::vector<std::string>& notes) const {
  Run run;
  start_from(folder_, *config_, config_->layout(), run);
  auto arguments = trainer.arguments();
  arguments.output = {};
  arguments.output.quiet = true;
  arguments.resume_from_checkpoint.clear();
  auto out = std::make_unique<train::Trainer>(factory(), arguments, nullptr, nullptr, trainer.job(),
                                              run.fill);
  notes.insert(notes.end(), run.notes->begin(), run.notes->end());
  return out;
}

}  // namespace convoy::tasks
