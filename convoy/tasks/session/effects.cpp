#include "convoy/tasks/session/effects.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/models/session/session_bodies.h"

namespace convoy::tasks {

void check_effects(const SessionArguments& arguments, const OptionTable& table) {
  for (const char* key : {"model.summary_type", "model.task_weights"}) {
    if (!arguments.model.targets.empty() || !table.asked_for(key)) continue;
    fail<UsageError>("tasks",
                     "{} has no effect where next items alone are predicted; try "
                     "--prediction_tasks next-item,binary:COLUMN",
                     key);
  }
  if (arguments.pretrained_embeddings.empty() && table.asked_for("model.pretrained_trainable")) {
    fail<UsageError>("tasks",
                     "model.pretrained_trainable has no effect without vectors to begin with; try "
                     "--pretrained_embeddings COLUMN=FILE");
  }
  if (arguments.item_tower.empty() && arguments.model.item_id_dropout > 0 &&
      table.asked_for("model.item_id_dropout")) {
    fail<UsageError>("tasks",
                     "model.item_id_dropout has no effect without features of items; try "
                     "--item_tower FEATURE");
  }
  // only_with() cannot express that the masking decides whether such a body hides items.
  const auto masking = arguments.model.masking_kind();
  const auto masks = models::bodies_that_learn_by("mlm");
  if ((masking == "clm" || masking == "plm") &&
      std::ranges::count(masks, arguments.model.body) > 0 &&
      table.asked_for("model.mlm_probability")) {
    fail<UsageError>("tasks", "model.mlm_probability has no effect with masking = {}; try {}",
                     masking, masking == "plm" ? "--plm_probability" : "--masking mlm");
  }
  if (arguments.model.has_in_batch_negatives() && table.asked_for("model.max_n_samples")) {
    fail<UsageError>("tasks",
                     "model.max_n_samples has no effect with negative_sampling = in_batch, whose "
                     "negatives are the targets of a step; try a larger batch, or another "
                     "--negative_sampling");
  }
  if (masking != "clm" && table.asked_for("model.attn_type")) {
    fail<UsageError>("tasks", "model.attn_type has no effect with masking = {}; try --masking clm",
                     masking);
  }
  for (const char* key : {"data.path", "data.train", "data.valid"}) {
    if (arguments.data.windows.empty() || !table.asked_for(key)) continue;
    fail<UsageError>("tasks",
                     "{} has no effect with data.windows, whose folders are read; try "
                     "without one of them",
                     key);
  }
}

}  // namespace convoy::tasks
