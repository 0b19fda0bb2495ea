#include "convoy/data/tools/repartition.h"

#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/data/arrow.h"
#include "convoy/data/parquet_file.h"
#include "convoy/data/parquet_writer.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCopiedRows = 4096;

/// Planned ends of the new row groups.
class Plan {
 public:
  Plan(const RepartitionOptions& options, int64_t rows, int64_t old_groups) : rows_(rows) {
    if (options.row_group_size > 0) {
      size_ = std::min(options.row_group_size, std::max<int64_t>(1, rows));
      groups_ = (rows + size_ - 1) / size_;
      return;
    }
    if (rows == 0) {
      fail<UsageError>("prepare", "{} has no rows; expected some to make partitions of",
                       options.input.string());
    }
    groups_ = options.partitions;
    const char* flag = "--partitions";
    if (options.ranks > 0) {
      flag = "--for-ranks";
      const int64_t most = rows / options.ranks;
      const int64_t wanted = (old_groups + options.ranks / 2) / options.ranks;
      groups_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, most)) * options.ranks;
    }
    if (groups_ > rows) {
      fail<UsageError>("prepare",
                       "{} has {} rows; expected at least one for each of {} partitions; "
                       "try {} {}",
                       options.input.string(), rows, groups_, flag, std::max<int64_t>(1, rows));
    }
  }

  int64_t groups() const { return groups_; }
  int64_t end(int64_t group) const {
    if (size_ > 0) return std::min(rows_, (group + 1) * size_);
    // Spreads the odd rows, so that any block of neighbouring groups is fair too.
    return static_cast<int64_t>(static_cast<__int128>(rows_) * (group + 1) / groups_);
  }

 private:
  int64_t rows_;
  int64_t size_ = 0;
  int64_t groups_ = 0;
};

void check_options(const RepartitionOptions& options) {
  int chosen = 0;
  for (auto [flag, value] :
       {std::pair{"--row-group-size", options.row_group_size},
        std::pair{"--partitions", options.partitions}, std::pair{"--for-ranks", options.ranks}}) {
    if (value < 0) fail<UsageError>("prepare", "{} is {}; expected at least 1", flag, value);
    chosen += value > 0;
  }
  if (chosen != 1) {
    fail<UsageError>("prepare",
                     "got {} of --row-group-size, --partitions and --for-ranks; expected one",
                     chosen == 0 ? "none" : "several");
  }
}

class Repartition {
 public:
  Repartition(const RepartitionOptions& options, const ProgressFn& progress)
      : input_(options.input),
        output_(options.output.empty() ? fs::weakly_canonical(options.input) : options.output),
        progress_(progress) {
    const ParquetFile well_formed(input_);
    reader_ = open_parquet(input_, kCopiedRows);
    metadata_ = reader_->parquet_reader()->metadata();
  }

  RepartitionReport run(const RepartitionOptions& options) {
    report_.num_rows = metadata_->num_rows();
    report_.old_groups = metadata_->num_row_groups();
    report_.old_bytes = static_cast<int64_t>(fs::file_size(input_));
    report_.min_group_rows = report_.num_rows;
    const Plan plan(options, report_.num_rows, report_.old_groups);
    AtomicFile file(output_);
    copy(plan, file.temporary());
    tell_changes(file.temporary());
    report_.new_bytes = static_cast<int64_t>(fs::file_size(file.temporary()));
    file.commit();
    return report_;
  }

 private:
  void copy(const Plan& plan, const fs::path& temporary) {
    std::shared_ptr<arrow::Schema> schema;
    check_arrow(reader_->GetSchema(&schema), input_);
    ParquetWriter writer(temporary, output_, schema, style());
    const auto batches = arrow_value(reader_->GetRecordBatchReader(), input_);
    int64_t done = 0;
    int64_t group_end = 0;
    each_batch(*batches, input_, [&](const arrow::RecordBatch& batch) {
      for (int64_t offset = 0; offset < batch.num_rows();) {
        if (done == group_end) {
          group_end = begin_group(plan, done, writer);
        }
        const int64_t count = std::min(batch.num_rows() - offset, group_end - done);
        writer.write(*batch.Slice(offset, count));
        offset += count;
        done += count;
      }
      if (progress_) progress_(done, report_.num_rows);
    });
    writer.close();
    if (done != report_.num_rows) {
      fail<FileError>("prepare", "{} promises {} rows but holds {}; the file may be damaged",
                      input_.string(), report_.num_rows, done);
    }
  }

  /// Warns of columns that other programs read differently from before.
  void tell_changes(const fs::path& written) {
    const auto reader = open_parquet(written, kCopiedRows);
    const auto now = reader->parquet_reader()->metadata();
    const auto text = [](const parquet::ColumnDescriptor& column) {
      const auto& logical = *column.logical_type();
      return parquet::TypeToString(column.physical_type()) +
             (logical.is_none() ? "" : " " + logical.ToString());
    };
    for (int c = 0; c < std::min(now->num_columns(), metadata_->num_columns()); ++c) {
      const auto &before = *metadata_->schema()->Column(c), &after = *now->schema()->Column(c);
      if (text(before) == text(after)) continue;
      report_.changes.push_back(fmt::format("column '{}' is stored as {}; it was {}",
                                            before.path()->ToDotString(), text(after),
                                            text(before)));
    }
  }

  int64_t begin_group(const Plan& plan, int64_t done, ParquetWriter& writer) {
    const int64_t end = plan.end(report_.new_groups);
    if (end <= done) {
      fail<FileError>("prepare",
                      "{} holds more rows than the {} that it promises; the file may be "
                      "damaged",
                      input_.string(), report_.num_rows);
    }
    ++report_.new_groups;
    report_.min_group_rows = std::min(report_.min_group_rows, end - done);
    report_.max_group_rows = std::max(report_.max_group_rows, end - done);
    writer.begin_row_group();
    return end;
  }

  ParquetStyle style() const {
    ParquetStyle out{.keep_list_names = true};
    bool has_others = false;  // timestamps that are no INT96
    for (int c = 0; c < metadata_->num_columns(); ++c) {
      const auto& column = *metadata_->schema()->Column(c);
      const auto type = column.physical_type();
      const bool whole = type == parquet::Type::INT32 || type == parquet::Type::INT64;
      out.int96 = out.int96 || type == parquet::Type::INT96;
      has_others = has_others || (whole && column.logical_type()->is_timestamp());
      out.whole_decimals = out.whole_decimals || (whole && column.logical_type()->is_decimal());
    }
    out.int96 = out.int96 && !has_others;  // Arrow stores all timestamps of a file alike
    if (metadata_->num_row_groups() == 0) return out;
    const auto first = metadata_->RowGroup(0);
    for (int c = 0; c < metadata_->num_columns(); ++c) {
      out.compression[metadata_->schema()->Column(c)->path()->ToDotString()] =
          first->ColumnChunk(c)->compression();
    }
    return out;
  }

  fs::path input_;
  fs::path output_;
  const ProgressFn& progress_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  RepartitionReport report_;
};

}  // namespace

RepartitionReport repartition(const RepartitionOptions& options, const ProgressFn& progress) {
  check_options(options);
  return guarded(options.input, [&] { return Repartition(options, progress).run(options); });
}

}  // namespace convoy::data
