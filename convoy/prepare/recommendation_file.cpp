#include "convoy/prepare/recommendation_file.h"

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>

#include "convoy/base/files.h"
#include "convoy/data/arrow.h"
#include "convoy/data/parquet_writer.h"

namespace convoy::prepare {

namespace {

using data::arrow_value;
using data::check_arrow;

constexpr int64_t kRowsPerGroup = 65536;

std::shared_ptr<arrow::Schema> file_schema() {
  return arrow::schema(
      {arrow::field("row", arrow::int64()), arrow::field("user_id", arrow::utf8()),
       arrow::field("rank", arrow::int64()), arrow::field("item_id", arrow::utf8()),
       arrow::field("score", arrow::float32()), arrow::field("name", arrow::utf8())});
}

}  // namespace

struct RecommendationFile::Impl {
  explicit Impl(const std::filesystem::path& path)
      : shown(path), file(path), writer(file.temporary(), path, file_schema(), {}) {}

  void flush() {
    if (rows.length() == 0) return;
    const int64_t count = rows.length();
    arrow::ArrayVector columns{
        arrow_value(rows.Finish(), shown),   arrow_value(users.Finish(), shown),
        arrow_value(ranks.Finish(), shown),  arrow_value(ids.Finish(), shown),
        arrow_value(scores.Finish(), shown), arrow_value(names.Finish(), shown)};
    writer.begin_row_group();
    writer.write(*arrow::RecordBatch::Make(file_schema(), count, columns));
  }

  std::filesystem::path shown;
  AtomicFile file;
  data::ParquetWriter writer;
  arrow::Int64Builder rows, ranks;
  arrow::StringBuilder users, ids, names;
  arrow::FloatBuilder scores;
};

RecommendationFile::RecommendationFile(const std::filesystem::path& file)
    : impl_(std::make_unique<Impl>(file)) {}

RecommendationFile::~RecommendationFile() = default;

void RecommendationFile::add(const RecommendationRow& row) {
  auto& to = *impl_;
  check_arrow(to.rows.Append(row.row), to.shown);
  check_arrow(row.user_id.empty() ? to.users.AppendNull() : to.users.Append(row.user_id), to.shown);
  check_arrow(to.ranks.Append(row.rank), to.shown);
  check_arrow(to.ids.Append(row.item_id), to.shown);
  check_arrow(to.scores.Append(row.score), to.shown);
  check_arrow(row.name.empty() ? to.names.AppendNull() : to.names.Append(row.name), to.shown);
  if (to.rows.length() == kRowsPerGroup) to.flush();
}

void RecommendationFile::finish() {
  impl_->flush();
  impl_->writer.close();
  impl_->file.commit();
}

}  // namespace convoy::prepare
