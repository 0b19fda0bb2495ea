#include "convoy/train/state.h"

#include "convoy/base/error.h"

namespace convoy::train {

Json TrainerState::to_json() const {
  return {{"global_step", global_step},
          {"max_steps", max_steps},
          {"num_train_epochs", num_train_epochs},
          {"epoch", epoch()},
          {"epoch_index", epoch_index},
          {"epoch_position", epoch_position},
          {"num_rows", num_rows},
          {"step_samples", step_samples},
          {"data_seed", data_seed},
          {"data_order", data_order},
          {"job_id", job_id},
          {"logged_loss_sum", logged_loss_sum},
          {"logged_steps", logged_steps},
          {"total_loss_sum", total_loss_sum},
          {"loss_scale", loss_scale.value},
          {"loss_scale_good_steps", loss_scale.good_steps},
          {"targets_per_sample", loss_scale.targets_per_sample},
          {"skipped_steps", skipped_steps},
          {"best_metric", best_step < 0 ? Json() : Json(best_metric)},
          {"best_global_step", best_step},
          {"best_metric_name", best_metric_name},
          {"best_model_checkpoint",
           best_model_checkpoint.empty() ? Json() : Json(best_model_checkpoint)},
          {"evaluations_without_better", evaluations_without_better},
          {"evaluation_owed", evaluation_owed},
          {"is_local_process_zero", true},
          {"is_world_process_zero", true},
          {"log_history", log_history}};
}

TrainerState TrainerState::from_json(const Json& json, const std::string& where) {
  TrainerState state;
  try {
    json.at("global_step").get_to(state.global_step);
    json.at("max_steps").get_to(state.max_steps);
    json.at("num_train_epochs").get_to(state.num_train_epochs);
    json.at("epoch_index").get_to(state.epoch_index);
    json.at("epoch_position").get_to(state.epoch_position);
    json.at("num_rows").get_to(state.num_rows);
    json.at("step_samples").get_to(state.step_samples);
    json.at("data_seed").get_to(state.data_seed);
    json.at("data_order").get_to(state.data_order);
    state.job_id = json.value("job_id", "");
    json.at("logged_loss_sum").get_to(state.logged_loss_sum);
    json.at("logged_steps").get_to(state.logged_steps);
    json.at("total_loss_sum").get_to(state.total_loss_sum);
    json.at("loss_scale").get_to(state.loss_scale.value);
    json.at("loss_scale_good_steps").get_to(state.loss_scale.good_steps);
    state.loss_scale.targets_per_sample = json.value("targets_per_sample", 0.0);
    json.at("skipped_steps").get_to(state.skipped_steps);
    json.at("best_global_step").get_to(state.best_step);
    if (state.best_step >= 0) json.at("best_metric").get_to(state.best_metric);
    json.at("best_metric_name").get_to(state.best_metric_name);
    const auto& saved = json.at("best_model_checkpoint");
    if (!saved.is_null()) saved.get_to(state.best_model_checkpoint);
    json.at("evaluations_without_better").get_to(state.evaluations_without_better);
    json.at("evaluation_owed").get_to(state.evaluation_owed);
    state.log_history = json.at("log_history");
  } catch (const Json::exception& error) {
    fail<FileError>("train", "{} is not a state that training can resume from: {}", where,
                    json_trouble(error));
  }
  return state;
}

}  // namespace convoy::train
