#include "convoy/prepare/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/table_source.h"
#include "convoy/prepare/events_decode.h"
#include "convoy/prepare/mostly_numbers.h"

namespace convoy::prepare {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kUserNames = {"user_id",   "user",       "userId",   "customer_id",
                                             "visitorid", "session_id", "sessionId"};
const std::vector<std::string> kItemNames = {"item_id", "item",       "itemId",
                                             "movieId", "product_id", "itemid"};
const std::vector<std::string> kTimeNames = {"timestamp", "time", "ts", "datetime", "event_time"};

/// Name of the chosen column, or of the first of the usual names that exists.
std::string choose(const data::TableSource& source, const std::string& chosen,
                   const std::vector<std::string>& usual, const std::string& flag) {
  if (!chosen.empty()) return chosen;
  for (const std::string& name : usual) {
    if (source.find(name) >= 0) return name;
  }
  source.require(usual.front(), flag + " COLUMN");
  return usual.front();
}

FeatureKind guess_kind(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::FIXED_SIZE_BINARY:
    case arrow::Type::DICTIONARY:
    case arrow::Type::BOOL:
      return FeatureKind::Categorical;
    default:
      return FeatureKind::Continuous;
  }
}

/// Target of one column of a file.
struct Consumer {
  std::shared_ptr<arrow::DataType> text_type;  // how a text file's column is parsed
  ColumnPlace place;
  std::function<void(const arrow::Array&, const ColumnPlace&)> append;
};

/// Reads the columns of one file after another into consumers.
class Reader {
 public:
  Reader(Events& events, const EventColumns& columns, const data::TableSource& first)
      : events_(events), user_(events.user), item_(events.item), time_units_(columns.time_units) {
    user_name_ = choose(first, columns.user, kUserNames, "--user");
    item_name_ = choose(first, columns.item, kItemNames, "--item");
    time_names_ = columns.time;
    if (time_names_.empty()) time_names_ = {choose(first, "", kTimeNames, "--time")};
    if (time_names_ == std::vector<std::string>{"none"}) time_names_.clear();
    events_.times.resize(time_names_.size());
    events_.time_names = time_names_;
    for (const FeatureSpec& spec : columns.features) {
      EventFeature feature{spec, {}, {}, {}};
      const int column = first.require(spec.name, "one of its columns in --features");
      guessed_.push_back(!spec.kind && first.is_text());
      if (!spec.kind) {
        feature.spec.kind = guess_kind(*first.columns()[static_cast<size_t>(column)].type);
      }
      events_.features.push_back(std::move(feature));
    }
    feature_codes_.reserve(events_.features.size());
    for (EventFeature& feature : events_.features) feature_codes_.emplace_back(feature.codes);
  }

  void read(const data::TableSource& source, const ProgressFn& progress) {
    columns_.clear();
    consumers_.clear();
    parts_.push_back({events_.num_events, source.first_row(), source.file().string()});
    events_.files.push_back({source.file().string(), events_.num_events});
    add(source, user_name_, "--user", arrow::utf8(), text_into(user_));
    add(source, item_name_, "--item", arrow::utf8(), text_into(item_));
    for (size_t t = 0; t < time_names_.size(); ++t) {
      // Read as text, since times in other forms may follow those that a type was guessed from.
      add(source, time_names_[t], "--time", arrow::utf8(),
          [this, t, kind = std::optional<TimeText>()](const arrow::Array& array,
                                                      const ColumnPlace& place) mutable {
            append_times(array, place, time_units_, kind, events_.times[t]);
          });
    }
    for (size_t f = 0; f < events_.features.size(); ++f) add_feature(source, f);
    std::vector<std::shared_ptr<arrow::DataType>> types;
    for (int column : columns_) types.push_back(type_of(column));
    source.read(
        columns_, types,
        [&](const arrow::RecordBatch& batch) {
          const Part& part = parts_.back();
          for (auto& [index, consumer] : consumers_) {
            consumer.place.first_row = part.first_row + events_.num_events - part.first_event;
            consumer.append(*batch.column(static_cast<int>(index)), consumer.place);
          }
          events_.num_events += batch.num_rows();
        },
        progress);
  }

  /// Warns of features that are mostly numbers and still became categorical.
  void check_guesses() {
    for (size_t f = 0; f < events_.features.size(); ++f) {
      const EventFeature& feature = events_.features[f];
      if (!guessed_[f] || feature.spec.kind != FeatureKind::Categorical) continue;
      const auto& codes = feature.codes;
      std::vector<bool> is_number(codes.values.size());
      double ignored = 0;
      for (size_t i = 0; i < is_number.size(); ++i) {
        is_number[i] = parse_number(trim(codes.values[i]), ignored);
      }
      int64_t numbers = 0, others = 0, first_other = -1;
      for (size_t event = 0; event < codes.codes.size(); ++event) {
        if (codes.codes[event] < 0) continue;
        const bool number = is_number[static_cast<size_t>(codes.codes[event])];
        numbers += number;
        others += !number;
        if (!number && first_other < 0) first_other = static_cast<int64_t>(event);
      }
      if (others == 0 || numbers <= others) continue;
      const auto other = static_cast<size_t>(codes.codes[static_cast<size_t>(first_other)]);
      const MostlyNumbers mostly{feature.spec.name, place_of(first_other), codes.values[other],
                                 numbers, numbers + others};
      events_.warnings.push_back(mostly.warning("feature", "--features"));
    }
  }

 private:
  /// File of events, with the indices of its first event and row.
  struct Part {
    int64_t first_event;
    int64_t first_row;  // as TableSource::first_row counts
    std::string file;
  };

  std::string place_of(int64_t event) const {
    auto part = parts_.rbegin();
    while (part->first_event > event) ++part;
    return fmt::format("row {} of {}", part->first_row + event - part->first_event, part->file);
  }

  static std::function<void(const arrow::Array&, const ColumnPlace&)> text_into(Interner& codes) {
    return [&codes](const arrow::Array& array, const ColumnPlace& place) {
      each_text(
          array, place,
          [&](std::string_view text) {
            text.empty() ? codes.append_missing() : codes.append(text);
          },
          [&] { codes.append_missing(); });
    };
  }

  void add_feature(const data::TableSource& source, size_t f) {
    EventFeature& feature = events_.features[f];
    if (feature.spec.kind == FeatureKind::Categorical) {
      add(source, feature.spec.name, "--features", arrow::utf8(), text_into(feature_codes_[f]));
      return;
    }
    const std::string flag = fmt::format("--features {}:categorical", feature.spec.name);
    add(source, feature.spec.name, flag, arrow::float64(),
        [&feature](const arrow::Array& array, const ColumnPlace& place) {
          each_number(
              array, place,
              [&](double value) {
                feature.values.push_back(feature.spec.of_event(value));
                feature.missing.push_back(false);
              },
              [&] {
                feature.values.push_back(0);
                feature.missing.push_back(true);
              });
        });
  }

  void add(const data::TableSource& source, const std::string& name, const std::string& flag,
           std::shared_ptr<arrow::DataType> type,
           std::function<void(const arrow::Array&, const ColumnPlace&)> append) {
    const int column = source.require(name, flag);
    auto found = std::find(columns_.begin(), columns_.end(), column);
    const auto index = static_cast<size_t>(found - columns_.begin());
    if (found == columns_.end()) columns_.push_back(column);
    consumers_.push_back({index, {type, {name, source.file().string(), flag}, std::move(append)}});
  }

  /// Arrow type by which a text file's column is parsed, from all of its uses. Where one use needs
  /// text, all get it and parse numbers and times themselves: as a number "007" would be 7.
  std::shared_ptr<arrow::DataType> type_of(int column) const {
    std::shared_ptr<arrow::DataType> type;
    for (const auto& [index, consumer] : consumers_) {
      if (columns_[index] != column) continue;
      if (!type || consumer.text_type->id() == arrow::Type::STRING) type = consumer.text_type;
    }
    return type;
  }

  Events& events_;
  Interner user_;
  Interner item_;
  int64_t time_units_;
  std::vector<Interner> feature_codes_;
  std::vector<bool> guessed_;  // by feature: its kind follows from a text file's first block
  std::vector<Part> parts_;
  std::string user_name_;
  std::string item_name_;
  std::vector<std::string> time_names_;
  std::vector<int> columns_;
  std::vector<std::pair<size_t, Consumer>> consumers_;
};

}  // namespace

std::vector<std::string> list_columns(const fs::path& file, const data::TableOptions& options) {
  const data::TableSource source(file, options);
  std::vector<std::string> names;
  for (const data::SourceColumn& column : source.columns()) names.push_back(column.plain);
  return names;
}

Events read_events(const std::vector<fs::path>& files, const EventColumns& columns,
                   const data::TableOptions& options, const ProgressFn& progress) {
  if (files.empty()) fail<UsageError>("prepare", "no input file; expected at least one");
  std::vector<data::TableSource> sources;
  int64_t total = 0;
  for (const fs::path& file : files) {
    sources.emplace_back(file, options);
    total += sources.back().bytes();
  }
  Events events;
  Reader reader(events, columns, sources.front());
  int64_t before = 0;
  for (const data::TableSource& source : sources) {
    reader.read(source, [&](int64_t done, int64_t) {
      if (progress) progress(before + done, total);
    });
    before += source.bytes();
  }
  reader.check_guesses();
  if (events.num_events == 0) {
    fail<FileError>("prepare", "{} holds no rows; expected interactions below the header",
                    files.front().string());
  }
  return events;
}

std::vector<std::pair<std::string, std::string>> read_names(const fs::path& file,
                                                            const std::string& key,
                                                            const std::string& value,
                                                            const data::TableOptions& options) {
  const data::TableSource source(file, options);
  const std::vector<int> columns = {source.require(key, "--names-key"),
                                    source.require(value, "--names-value")};
  if (columns[0] == columns[1]) {
    fail<UsageError>("prepare", "--names-key and --names-value are both '{}'; expected two columns",
                     key);
  }
  Codes codes[2];
  Interner texts[2] = {Interner(codes[0]), Interner(codes[1])};
  const char* flags[2] = {"--names-key", "--names-value"};
  source.read(columns, {arrow::utf8(), arrow::utf8()},
              [&](const arrow::RecordBatch& batch) {
                for (int c = 0; c < 2; ++c) {
                  const ColumnPlace place{c == 0 ? key : value, file.string(), flags[c]};
                  each_text(
                      *batch.column(c), place,
                      [&](std::string_view text) { texts[c].append(text); },
                      [&] { texts[c].append_missing(); });
                }
              },
              {});
  auto text = [](const Codes& column, size_t row) {
    const int32_t code = column.codes[row];
    return code < 0 ? std::string() : column.values[static_cast<size_t>(code)];
  };
  std::vector<std::pair<std::string, std::string>> names;
  for (size_t row = 0; row < codes[0].codes.size(); ++row) {
    names.emplace_back(text(codes[0], row), text(codes[1], row));
  }
  return names;
}

}  // namespace convoy::prepare
