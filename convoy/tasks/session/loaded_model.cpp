#include "convoy/tasks/session/loaded_model.h"

#include "convoy/base/files.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/tasks/session/item_tower.h"

namespace convoy::tasks {

LoadedModel::LoadedModel(const std::filesystem::path& folder, at::Device device,
                         const std::filesystem::path& data) {
  const auto file = folder / "config.json";
  config.read_json(parse_json(read_file(file), file.string()), file.string());
  config.predicts_states = true;
  known = KnownIdsOfModel::of_run(folder, config);
  has_newer_items =
      open_item_tower(folder, data.empty() ? beside_nothing() : beside(data), config, known);
  if (has_newer_items) check_same_ids(folder, config, beside(data));
  blocks = models::make_session_model(config);
  parallel::ReplicaOptions options;
  options.trains = false;
  options.device = device;
  options.fill = [&folder](parallel::Replica& model) {
    checkpoint::load_weights(folder, model.weights(), model.world());
  };
  replica_ = std::make_unique<parallel::Replica>(blocks, comm::Groups(), options);
  replica_->start();
  vectors_ = models::output_vectors(blocks);
}

}  // namespace convoy::tasks
