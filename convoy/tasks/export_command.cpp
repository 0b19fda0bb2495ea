#include <memory>

#include <CLI/CLI.hpp>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/formats/vector_file.h"
#include "convoy/report/progress_line.h"
#include "convoy/tasks/session/onnx_layers.h"
#include "convoy/tasks/session/onnx_model.h"
#include "convoy/tasks/session/task.h"
#include "convoy/tasks/task.h"

namespace convoy::tasks {

namespace {

struct VectorsCommand : VectorExport {
  std::optional<int64_t> nproc;
};

struct OnnxCommand {
  std::string folder;
  std::filesystem::path output;
};

SessionTask& session_task(Task& task, const std::string& folder) {
  auto* out = dynamic_cast<SessionTask*>(&task);
  if (out != nullptr) return *out;
  fail<UsageError>("export", "{} is of a {}; expected the run of a {}", folder, task.name(),
                   SessionTask().name());
}

void add_vectors(CLI::App& group, Work& work, const Program& program) {
  auto options = std::make_shared<VectorsCommand>();
  auto* vectors = group.add_subcommand(
      "vectors", "Write the vectors of items, and of sessions, whose products are the scores");
  vectors
      ->add_option("folder", options->folder,
                   "output folder of a session model's run, or a checkpoint in it")
      ->required();
  vectors->add_option("-o,--output", options->output, "new folder")->required();
  vectors->add_option("--data", options->data,
                      "data whose sessions get vectors, too, - for the standard input");
  vectors->add_option("--rows", options->rows, "only the first N rows of the data; 0 = all")
      ->check(CLI::NonNegativeNumber);
  vectors->add_option("--format", options->format, "npy, for NumPy; or fvecs, of Faiss' data sets")
      ->check(CLI::IsMember({formats::kNpy, formats::kFvecs}))
      ->capture_default_str();
  vectors->add_option("--nproc", options->nproc, "start this many ranks on this host");
  vectors->footer(
      "Writes items.npy, a row for each item that may be recommended, and items.parquet with their "
      "ids in the same order; of --data sessions.npy and sessions.parquet with the rows and users. "
      "The product of two vectors is the score. For a search of the nearest by inner product, such "
      "as that of Faiss and hnswlib.\n"
      "convoy checkpoint export writes the model itself, for Hugging Face's programs.\n"
      "Examples:\n  convoy export vectors runs/first --output vectors\n"
      "  convoy export vectors runs/first --output vectors --data today.parquet --nproc 2");
  vectors->callback([options, program, &work] {
    work = [options, program] {
      if (auto code = program.launch_ranks(options->nproc)) return *code;
      program.open(options->folder.string(), [&](Task& task, const Run& run, const auto& training) {
        options->tell = program.tell;
        session_task(task, options->folder.string()).export_vectors(*options, run, training);
      });
      return 0;
    };
  });
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) out.push_back(entry.path());
  }
  return out;
}

void add_onnx(CLI::App& group, Work& work, const Program& program) {
  auto options = std::make_shared<OnnxCommand>();
  auto* onnx = group.add_subcommand("onnx", "Write a session model as a graph of ONNX");
  onnx->add_option("folder", options->folder,
                   "output folder of a session model's run, or a checkpoint in it")
      ->required();
  onnx->add_option("-o,--output", options->output, "file to write, such as model.onnx")->required();
  onnx->footer(
      "The graph maps item_ids [batch, length], right-padded with 0, to scores [batch, ids]: the "
      "ids are those of items.parquet in the run's folder. For models of items alone with the "
      "body " +
      join(OnnxLayers::bodies()) +
      ".\n"
      "Example:\n  convoy export onnx runs/first --output model.onnx");
  onnx->callback([options, program, &work] {
    work = [options, program] {
      const auto& output = options->output;
      if (std::filesystem::is_directory(output)) {
        fail<UsageError>("export", "--output {} is a folder; try {}", output.string(),
                         (output / "model.onnx").string());
      }
      if (output.extension() != ".onnx") {
        fail<UsageError>("export", "--output {}; expected a name that ends in .onnx",
                         output.string());
      }
      check_keeps_inputs("export", output, files_of(options->folder));
      program.open(options->folder, [&](Task& task, const Run& run, const auto&) {
        session_task(task, options->folder);
        program.tell(*run.notes);
        onnx_graph(options->folder).write(output);
      });
      report::line("wrote", "{} ({})", output.string(),
                   human_bytes(std::filesystem::file_size(output)));
      return 0;
    };
  });
}

}  // namespace

void add_export(CLI::App& app, Work& work, const Program& program) {
  auto* group = app.add_subcommand("export", "Write what other programs serve a model with");
  group->require_subcommand(1);
  add_vectors(*group, work, program);
  add_onnx(*group, work, program);
}

}  // namespace convoy::tasks
