#include "convoy/checkpoint/load_pretrained.h"

#include "convoy/checkpoint/carried.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/parallel/run/replica.h"

namespace convoy::checkpoint {

Pretrained load_pretrained(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  Pretrained out;
  out.config = models::read_model_config(read_config(file), file.string());
  out.blocks = [config = out.config] { return config->make_blocks(); };
  out.weights = [config = out.config, folder](parallel::Replica& replica) {
    const auto report = load_weights(folder, replica.weights(), replica.world(), config->layout());
    replica.draw({report.drawn.begin(), report.drawn.end()});
  };
  return out;
}

}  // namespace convoy::checkpoint
