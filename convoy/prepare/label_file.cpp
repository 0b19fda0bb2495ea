#include "convoy/prepare/label_file.h"

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

std::shared_ptr<arrow::Schema> schema_of(const std::vector<std::string>& labels) {
  arrow::FieldVector fields{arrow::field("row", arrow::int64()),
                            arrow::field("label", arrow::utf8()),
                            arrow::field("score", arrow::float64())};
  for (const auto& label : labels) {
    fields.push_back(arrow::field("score of " + label, arrow::float64()));
  }
  return arrow::schema(fields);
}

}  // namespace

struct LabelFile::Impl {
  Impl(const std::filesystem::path& path, const std::vector<std::string>& labels)
      : shown(path),
        names(labels),
        schema(schema_of(labels)),
        file(path),
        writer(file.temporary(), path, schema, {}),
        each(labels.size()) {}

  void flush() {
    const int64_t count = rows.length();
    if (count == 0) return;
    arrow::ArrayVector columns{arrow_value(rows.Finish(), shown), arrow_value(best.Finish(), shown),
                               arrow_value(score.Finish(), shown)};
    for (auto& builder : each) columns.push_back(arrow_value(builder.Finish(), shown));
    writer.begin_row_group();
    writer.write(*arrow::RecordBatch::Make(schema, count, columns));
  }

  std::filesystem::path shown;
  std::vector<std::string> names;
  std::shared_ptr<arrow::Schema> schema;
  AtomicFile file;
  data::ParquetWriter writer;
  arrow::Int64Builder rows;
  arrow::StringBuilder best;
  arrow::DoubleBuilder score;
  std::vector<arrow::DoubleBuilder> each;
};

LabelFile::LabelFile(const std::filesystem::path& file, const std::vector<std::string>& labels)
    : impl_(std::make_unique<Impl>(file, labels)) {}

LabelFile::~LabelFile() = default;

void LabelFile::add(int64_t row, size_t best, std::span<const double> scores) {
  auto& to = *impl_;
  check_arrow(to.rows.Append(row), to.shown);
  check_arrow(to.best.Append(to.names.at(best)), to.shown);
  check_arrow(to.score.Append(scores[best]), to.shown);
  for (size_t i = 0; i < to.each.size(); ++i) {
    check_arrow(to.each[i].Append(scores[i]), to.shown);
  }
  if (to.rows.length() == kRowsPerGroup) to.flush();
}

void LabelFile::finish() {
  impl_->flush();
  impl_->writer.close();
  impl_->file.commit();
}

}  // namespace convoy::prepare
