#include "convoy/tasks/trained.h"

#include "convoy/base/error.h"
#include "convoy/checkpoint/folder.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

void check_trained(const fs::path& folder) {
  if (!fs::exists(folder / "config.json")) {
    const auto latest = checkpoint::latest_checkpoint(folder);
    fail<UsageError>(
        "train",
        "{} holds no trained model; expected config.json and model.safetensors, as in the "
        "output.dir of convoy train{}",
        folder.string(),
        latest ? "; that run has not ended; try its checkpoint " + latest->string() : "");
  }
}

}  // namespace convoy::tasks
