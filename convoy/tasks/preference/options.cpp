#include "convoy/tasks/preference/options.h"

#include "convoy/base/error.h"
#include "convoy/tasks/language/run_clm.h"

namespace convoy::tasks {

void PreferenceLossOptions::declare(OptionTable& t) {
  const char* s = "train";
  t.add(s, "beta", loss->beta,
        "how much the model is held to the reference: a larger one lets it part less")
      .within(1e-6, 1e6);
  t.add(s, "loss_type", loss->loss_type,
        "loss of a pair: sigmoid (DPO), ipo (squared distance of the margin by token), or robust "
        "(DPO that expects wrong labels)")
      .choice(nn::PreferenceOptions::loss_types());
  t.add(s, "label_smoothing", loss->label_smoothing,
        "probability that the answers of a pair are the wrong way round")
      .within(0, 0.499)
      .only_with("train.loss_type", {"sigmoid", "robust"});
  t.add(s, "disable_dropout", disable_dropout,
        "train without dropout, so that the model begins as the reference");
  t.add(s, "ref_model_name_or_path", ref_model_name_or_path,
        "folder of the model that is the reference; none = the model that the run starts from")
      .alias("ref_model")
      .path();
  t.hint({"train.beta", true, {"dpo_beta", "tau"}});
  t.hint({"train.loss_type", true, {"dpo_loss", "preference_loss"}});
  t.hint({"train.label_smoothing", false, {"label_smoothing_factor"}});
}

void PreferenceLossOptions::settle(const OptionTable& table) const {
  for (const auto& option : table.options()) {
    const bool drops = option.section == "model" && option.name.find("drop") != std::string::npos;
    const bool is_off = std::strtod(option.plain().c_str(), nullptr) == 0;
    if (!disable_dropout || !drops || !option.typed || is_off) continue;
    fail<UsageError>("tasks",
                     "{} = {} has no effect: preferences are learnt without dropout; try "
                     "--disable_dropout false",
                     option.name, option.plain());
  }
}

void answer_dpo_flags(OptionTable& table) {
  const char* length = "an answer is cut with its prompt; try --max_length";
  const char* once =
      "the reference's log-probabilities are computed once before training; try without it, or "
      "--ref_model_name_or_path FOLDER for another reference";
  const char* losses = "expected one of sigmoid, ipo and robust; try --loss_type";
  answer_run_clm_flags(
      table,
      {{"block_size", OtherFlag::Refused, "rows are of pairs; try --max_length"},
       {"max_prompt_length", OtherFlag::Refused, length},
       {"max_completion_length", OtherFlag::Refused, length},
       {"truncation_mode", OtherFlag::Refused,
        "answers are cut at their end, as keep_start does; try without it"},
       {"padding_free", OtherFlag::Switch, "both answers of a pair share a row, without padding"},
       {"precompute_ref_log_probs", OtherFlag::AlwaysOn,
        "the reference's log-probabilities are computed once and kept with the run"},
       {"precompute_ref_batch_size", OtherFlag::Refused, "try --per_device_eval_batch_size"},
       {"sync_ref_model", OtherFlag::Refused, once},
       {"reference_free", OtherFlag::Refused, once},
       {"f_divergence_type", OtherFlag::Refused,
        "the divergence is that of DPO, reverse_kl; try without it"},
       {"loss_weights", OtherFlag::Refused, losses},
       {"ld_alpha", OtherFlag::Refused, losses},
       {"rpo_alpha", OtherFlag::Refused, losses},
       {"use_weighting", OtherFlag::Refused, losses},
       {"dataset_num_proc", OtherFlag::Value, "pairs are read once, before training"},
       {"generate_during_eval", OtherFlag::Refused, "try convoy generate, after the run"}});
}

}  // namespace convoy::tasks
