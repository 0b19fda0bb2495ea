#include "convoy/tasks/session/loaded_model.h"

#include "convoy/base/files.h"
#include "convoy/checkpoint/weights.h"

namespace convoy::tasks {

LoadedModel::LoadedModel(const std::filesystem::path& folder, at::Device device) {
  const auto file = folder / "config.json";
  config.read_json(parse_json(read_file(file), file.string()), file.string());
  config.predicts_states = true;
  blocks = models::make_session_model(config);
  parallel::ReplicaOptions options;
  options.trains = false;
  options.device = device;
  options.fill = [&folder](parallel::Replica& model) {
    checkpoint::load_weights(folder, model.weights(), model.world());
  };
  replica_ = std::make_unique<parallel::Replica>(blocks, comm::Groups(), options);
  replica_->start();
}

}  // namespace convoy::tasks
