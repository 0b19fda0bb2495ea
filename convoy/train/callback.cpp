#include "convoy/train/callback.h"

#include <fstream>

#include "convoy/base/json_number.h"
#include "convoy/job/job.h"
#include "convoy/train/memory_use.h"

namespace convoy::train {

Metrics metrics_from_json(const Json& json) {
  Metrics out;
  for (const auto& [name, value] : json.items()) {
    if (const auto number = finite_number(value)) out[name] = *number;
    if (value.is_null()) out[name] = NAN;
  }
  return out;
}

Json LogRecord::to_json() const {
  Json json{{"step", step},
            {"epoch", epoch},
            {"loss", loss},
            {"grad_norm", grad_norm},
            {"learning_rate", learning_rate},
            {"samples_per_second", samples_per_second},
            {"data_wait_percent", data_wait_percent},
            {"comm_wait_percent", comm_wait_percent},
            {"memory_bytes", memory_bytes}};
  for (const auto& [kind, bytes] : kinds_of(memory)) json["memory_" + kind] = bytes;
  if (device_memory_bytes > 0) json["device_memory_bytes"] = device_memory_bytes;
  if (loss_scale > 0) {
    json["loss_scale"] = loss_scale;
    json["skipped_steps"] = skipped_steps;
  }
  if (std::isfinite(peak_percent)) {
    json["peak_percent"] = peak_percent;
    json["floor_times"] = floor_times;
  }
  if (std::isfinite(goodput)) json["goodput"] = goodput;
  if (!rows_sum.empty()) json["rows_sum"] = rows_sum;
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

}  // namespace convoy::train
