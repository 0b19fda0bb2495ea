#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/export.h"
#include "convoy/data/row_writer.h"
#include "convoy/formats/vector_file.h"
#include "convoy/models/session/session.h"
#include "convoy/report/progress_line.h"
#include "convoy/tasks/each_row.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/recommender.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {

namespace {

namespace fs = std::filesystem;

/// Vectors with a table of their names, in a new folder.
class NamedVectors {
 public:
  NamedVectors(const fs::path& folder, const VectorExport& asked, const std::string& name,
               int64_t width, const std::vector<data::RowWriter::Column>& columns)
      : vectors_(folder / (name + "." + asked.format), asked.output / (name + "." + asked.format),
                 asked.format, width),
        table_(folder / (name + ".parquet"), asked.output / (name + ".parquet"), columns),
        shown_(name + "." + asked.format),
        width_(width) {}

  void add(const float* vector, const std::vector<data::RowWriter::Value>& names) {
    vectors_.add(vector);
    table_.add(names);
  }

  void finish() {
    vectors_.finish();
    table_.close();
  }

  /// Returns name and shape as text: "items.npy [1,682 x 64]".
  std::string text() const {
    return fmt::format("{} [{} x {}]", shown_, human_count(vectors_.count()), width_);
  }

 private:
  formats::VectorFile vectors_;
  data::RowWriter table_;
  std::string shown_;
  int64_t width_;
};

/// Raw ids of the owners of the rows of `file`; empty where the data do not tell them.
std::vector<std::string> owners_of(const std::string& file, const formats::Schema& schema) {
  const data::ParquetFiles dataset(file);
  auto owners = find_owners(dataset, schema);
  if (owners.column.empty()) return std::move(owners.texts);
  std::vector<std::string> out;
  for (const auto& part : dataset.files()) {
    for (const auto& number : prepare::read_raw_ids(part.path(), owners.column)) {
      int64_t id = 0;
      out.push_back(parse_number(number, id) ? owners.names.raw_id(id) : number);
    }
  }
  return out;
}

std::string write_items(const fs::path& folder, const VectorExport& asked) {
  const Recommender recommender(asked.folder, at::kCPU, asked.data);
  const auto items = recommender.item_vectors();
  std::vector<data::RowWriter::Column> columns{{"item_id", std::string()}};
  if (items.has_names) columns.emplace_back("name", std::string());
  const int64_t width = items.vectors.size(1);
  NamedVectors out(folder, asked, "items", width, columns);
  const auto* vectors = items.vectors.const_data_ptr<float>();
  for (size_t i = 0; i < items.item_ids.size(); ++i) {
    std::vector<data::RowWriter::Value> names{items.item_ids[i]};
    if (items.has_names) {
      names.push_back(items.names[i].empty() ? data::RowWriter::Value() : items.names[i]);
    }
    out.add(vectors + static_cast<int64_t>(i) * width, names);
  }
  out.finish();
  return out.text();
}

}  // namespace

void SessionTask::export_vectors(const VectorExport& asked, const Run& run,
                                 const options::TrainingArguments& training) {
  auto& model = arguments_.model;
  model.predicts_states = true;
  checkpoint::check_new_folder(asked.folder, asked.output);
  if (asked.rows > 0 && asked.data.empty()) {
    fail<UsageError>("export", "--rows has no effect without --data; try --data FILE.parquet");
  }
  take_newer_items(asked.data);
  auto job = job::join_job(training.parallel);
  if (job.is_main()) asked.tell(*run.notes);
  std::optional<AtomicFolder> folder;
  if (job.is_main()) folder.emplace(asked.output);
  std::vector<std::string> written;
  if (job.is_main()) written.push_back(write_items(folder->temporary(), asked));
  int64_t empty = 0;
  if (!asked.data.empty()) {
    const auto [file, data, notes] = prediction_data(asked.data, asked.rows);
    if (!data) fail<UsageError>("export", "--data {} has no rows of sessions", asked.data);
    const auto owners = owners_of(file, schema_);
    const int64_t width = models::output_matrix(models::make_session_model(model))->spec().shape[1];
    std::unique_ptr<NamedVectors> out;
    if (job.is_main()) {
      asked.tell(notes);
      out = std::make_unique<NamedVectors>(
          folder->temporary(), asked, "sessions", width,
          std::vector<data::RowWriter::Column>{{"row", int64_t{}}, {"user_id", std::string()}});
    }
    train::Trainer trainer(run.factory, training, nullptr, nullptr, job, run.fill);
    trainer.load_weights(asked.folder);
    std::vector<float> vector(static_cast<size_t>(width));
    each_row(
        trainer, *data, asked.rows, width + 1, "row",
        [&](const nn::Bundle& outputs, const at::Tensor&) {
          const auto states = outputs.at("states").to(at::kDouble) / model.temperature;
          const auto num_items = outputs.at("num_items").to(at::kDouble).unsqueeze(1);
          return at::cat({states, num_items}, 1);
        },
        [&](int64_t row, std::span<const double> numbers) {
          if (numbers.back() == 0) {
            ++empty;
            return;
          }
          std::copy_n(numbers.begin(), width, vector.begin());
          const auto place = static_cast<size_t>(row);
          out->add(vector.data(),
                   {row, place < owners.size() ? data::RowWriter::Value(owners[place])
                                               : data::RowWriter::Value()});
        });
    if (out) {
      out->finish();
      written.push_back(out->text());
    }
  }
  if (!folder) return;
  folder->commit();
  report::line("wrote", "{}: {}", asked.output.string(), join(written));
  if (empty > 0) {
    report::line("left out", "{} without an item that the model knows", plural(empty, "row"));
  }
}

}  // namespace convoy::tasks
