#include "convoy/tasks/trained.h"

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

Json open_trained(const fs::path& folder, OptionTable& table) {
  const auto config = folder / "config.json";
  if (!fs::exists(config)) {
    const auto latest = checkpoint::latest_checkpoint(folder);
    fail<UsageError>(
        "train",
        "{} holds no trained model; expected config.json and model.safetensors, as in the "
        "output.dir of convoy train{}",
        folder.string(),
        latest ? "; that run has not ended; try its checkpoint " + latest->string() : "");
  }
  if (fs::exists(folder / "run.toml")) table.read_toml(folder / "run.toml");
  return parse_json(read_file(config), config.string());
}

}  // namespace convoy::tasks
