#include "convoy/tasks/session/recommend.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/comm/to_host.h"
#include "convoy/data/row_writer.h"
#include "convoy/models/session/session_targets.h"
#include "convoy/nn/losses/left_out.h"
#include "convoy/nn/losses/ranking.h"
#include "convoy/tasks/session/dataset.h"
#include "convoy/tasks/text_output.h"

namespace convoy::tasks {

namespace {

constexpr int64_t kShownItems = 3;  // of a session

/// Columns of the table that ranks gather, before a row's `top_k` ids.
enum Place : int64_t { kRow, kOwner, kHasOwner, kLength, kSession, kIds = kSession + kShownItems };

/// Best items of a step, [rows, kIds + k] and [rows, k], and predictions [rows, targets].
struct Best {
  at::Tensor numbers, scores, targets;
};

void take_best(const parallel::MicroBatch& batch, const nn::Bundle& out, int64_t s0,
               const RecommendOptions& options, Best& best, int64_t& filled) {
  auto scores = out.at("scores");
  const auto& sessions = batch.inputs.at(options.item_feature);
  nn::LeftOut left_out;
  if (!options.unseen.empty()) {
    left_out.ids = comm::upload(at::tensor(options.unseen, at::kLong), scores.device());
  }
  if (const auto found = batch.inputs.find(models::kExcluded); found != batch.inputs.end()) {
    left_out.of_rows = comm::upload(found->second, scores.device());
  }
  left_out.mask(scores, /*first=*/1);
  const auto empty = batch.inputs.at("lengths") == 0;
  scores.masked_fill_(comm::upload(empty, scores.device()).unsqueeze(1),
                      -std::numeric_limits<float>::infinity());
  const auto [values, columns] = nn::best_columns(scores, best.scores.size(1));
  const int64_t rows = batch.samples.size(0);
  auto numbers = best.numbers.narrow(0, filled, rows);
  comm::download_into(best.scores.narrow(0, filled, rows), values.narrow(0, 0, rows));
  comm::download_into(numbers.narrow(1, kIds, best.scores.size(1)), columns.narrow(0, 0, rows) + 1);
  numbers.select(1, kRow).copy_(batch.samples + s0);  // on the host
  if (auto owner = batch.inputs.find(options.owner); owner != batch.inputs.end()) {
    numbers.select(1, kOwner).copy_(owner->second);  // on the host
    numbers.select(1, kHasOwner).fill_(1);
  }
  const auto& lengths = batch.inputs.at("lengths");
  numbers.select(1, kLength).copy_(lengths);  // on the host
  for (int64_t i = 0; i < rows; ++i) {
    const auto length = comm::item<int64_t>(lengths[i]), shown = std::min(kShownItems, length);
    const auto last = sessions[i].narrow(0, length - shown, shown);
    numbers[i].narrow(0, kSession, shown).copy_(last);  // on the host
  }
  for (size_t i = 0; i < options.targets.size(); ++i) {
    const auto predicted = out.at(models::SessionTargets::prediction(options.targets[i]));
    comm::download_into(best.targets.narrow(0, filled, rows).select(1, static_cast<int64_t>(i)),
                        predicted.narrow(0, 0, rows));
  }
  filled += rows;
}

Recommendation to_recommendation(const int64_t* numbers, const float* scores, int64_t k,
                                 std::vector<float> targets) {
  Recommendation row;
  row.row = numbers[kRow];
  if (numbers[kHasOwner] != 0) row.owner = numbers[kOwner];
  row.session_length = numbers[kLength];
  for (int64_t i = 0; i < std::min(kShownItems, row.session_length); ++i) {
    row.session.push_back(numbers[kSession + i]);
  }
  for (int64_t i = 0; i < k; ++i) {
    if (scores[i] == -std::numeric_limits<float>::infinity()) break;  // the rest was seen
    if (!std::isfinite(scores[i])) {
      fail<NumericError>("train",
                         "the scores of row {} are not finite; got {}; look for extreme values in "
                         "the data, or try without fp16",
                         row.row, scores[i]);
    }
    row.ids.push_back(numbers[kIds + i]);
    row.scores.push_back(scores[i]);
  }
  for (const float value : targets) {
    if (std::isfinite(value)) continue;
    fail<NumericError>("train",
                       "what is predicted of row {} beside the items is not finite; got {}; look "
                       "for extreme values in the data, or try without fp16",
                       row.row, value);
  }
  row.targets = std::move(targets);
  return row;
}

}  // namespace

void recommend(train::Trainer& trainer, const dataset::Dataset& data,
               const RecommendOptions& options,
               const std::function<void(const Recommendation&)>& use) {
  auto& strategy = trainer.strategy();
  const auto& group = strategy.processes();
  int64_t k = 0;  // of the first step: all have as many columns
  const auto use_step = [&](const dataset::StepBatch& step, const std::vector<nn::Bundle>& outs) {
    if (k == 0) {
      auto columns = at::zeros({1}, at::kLong);
      for (const auto& out : outs) {
        if (!out.empty()) columns.fill_(out.at("scores").size(1));
      }
      group.all_reduce(columns, comm::ReduceOp::Max, "number of items");
      k = std::min(options.top_k, comm::item<int64_t>(columns));
    }
    const int64_t ranks = strategy.num_ranks();
    const int64_t most = (step.end - step.s0 + ranks - 1) / ranks * strategy.num_local_ranks();
    const auto num_targets = std::ssize(options.targets);
    Best best{at::full({most, kIds + k}, -1, at::kLong), at::zeros({most, k}),
              at::zeros({most, num_targets})};
    best.numbers.select(1, kHasOwner).zero_();
    int64_t filled = 0;
    for (size_t c = 0; c < outs.size(); ++c) {
      const bool none =
          step.micro_batches[c].empty() || step.num_samples[c] == 0 || outs[c].empty();
      if (none || !strategy.tells_rows()) continue;
      take_best(step.micro_batches[c], outs[c], step.s0, options, best, filled);
    }
    const auto numbers = group.gather_rows(best.numbers.narrow(0, 0, filled), "gather ids");
    const auto scores = group.gather_rows(best.scores.narrow(0, 0, filled), "gather scores");
    auto targets = best.targets.narrow(0, 0, filled);
    if (num_targets > 0) targets = group.gather_rows(targets, "gather targets");
    if (group.rank() != 0) return;
    const auto order = numbers.select(1, kRow).argsort().contiguous();
    for (int64_t i = 0; i < order.size(0); ++i) {
      const int64_t at = order.data_ptr<int64_t>()[i];
      const auto* row = numbers.data_ptr<int64_t>() + at * numbers.size(1);
      if (options.rows > 0 && row[kRow] >= options.rows) continue;
      const auto* own = targets.const_data_ptr<float>() + at * num_targets;
      use(to_recommendation(row, scores.data_ptr<float>() + at * k, k, {own, own + num_targets}));
    }
  };
  trainer.predict(data, use_step, options.rows);
}

namespace {

class TextWriter : public RecommendationWriter {
 public:
  TextWriter(const std::filesystem::path& file, const RecommendationNames& names, bool json)
      : output_(file), names_(names), json_(json) {
    if (json_) return;
    auto header = std::string("row,user_id,rank,item_id,score");
    if (names.items.has_names()) header += ",name";
    for (const auto& target : names.targets) header += "," + csv_value(target);
    output_.put(header + "\n");
  }

  void write(const Recommendation& row) override {
    const auto owner = names_.owner(row);
    const auto user = owner.value_or("");
    for (size_t i = 0; i < row.ids.size(); ++i) {
      auto raw = names_.items.raw_id(row.ids[i]);
      auto name = names_.items.name(row.ids[i]);
      if (json_) {
        Json line{{"row", row.row}, {"rank", i + 1}, {"item_id", raw}, {"score", row.scores[i]}};
        if (owner) line["user_id"] = user;
        if (!name.empty()) line["name"] = name;
        for (size_t t = 0; t < row.targets.size(); ++t) line[names_.targets[t]] = row.targets[t];
        output_.put(json_line(line) + "\n");
      } else {
        auto line = fmt::format("{},{},{},{},{}", row.row, csv_value(user), i + 1, csv_value(raw),
                                row.scores[i]);
        if (names_.items.has_names()) line += "," + csv_value(name);
        for (const float value : row.targets) line += fmt::format(",{}", value);
        output_.put(line + "\n");
      }
    }
  }

  void finish() override { output_.finish(); }

 private:
  TextOutput output_;
  const RecommendationNames& names_;
  bool json_;
};

class TableWriter : public RecommendationWriter {
 public:
  TableWriter(const std::filesystem::path& file, const RecommendationNames& names)
      : names_(names), file_(file), rows_(file_.temporary(), file, columns_of(names)) {}

  void write(const Recommendation& row) override {
    for (size_t i = 0; i < row.ids.size(); ++i) {
      std::vector<data::RowWriter::Value> values{row.row, if_any(names_.owner(row).value_or("")),
                                                 static_cast<int64_t>(i) + 1,
                                                 names_.items.raw_id(row.ids[i]), row.scores[i]};
      if (names_.items.has_names()) values.push_back(if_any(names_.items.name(row.ids[i])));
      values.insert(values.end(), row.targets.begin(), row.targets.end());
      rows_.add(values);
    }
  }

  void finish() override {
    rows_.close();
    file_.commit();
  }

 private:
  static std::vector<data::RowWriter::Column> columns_of(const RecommendationNames& names) {
    std::vector<data::RowWriter::Column> out{{"row", int64_t{}},
                                             {"user_id", std::string()},
                                             {"rank", int64_t{}},
                                             {"item_id", std::string()},
                                             {"score", float{}}};
    if (names.items.has_names()) out.emplace_back("name", std::string());
    for (const auto& target : names.targets) out.emplace_back(target, float{});
    return out;
  }

  static data::RowWriter::Value if_any(const std::string& text) {
    return text.empty() ? data::RowWriter::Value() : text;
  }

  const RecommendationNames& names_;
  AtomicFile file_;
  data::RowWriter rows_;
};

}  // namespace

std::optional<std::string> RecommendationNames::owner(const Recommendation& row) const {
  if (!owners.texts.empty()) return owners.texts.at(static_cast<size_t>(row.row));
  return row.owner ? std::optional(owners.names.raw_id(*row.owner)) : std::nullopt;
}

std::filesystem::path kept_file(const std::filesystem::path& folder, const std::string& file) {
  for (const auto& place : {folder, folder / ".."}) {
    if (std::filesystem::exists(place / file)) return place / file;
  }
  return {};
}

prepare::ItemNames item_names(const std::filesystem::path& folder, const std::string& file) {
  const auto kept = kept_file(folder, file);
  return kept.empty() ? prepare::ItemNames() : prepare::ItemNames::load(kept);
}

std::unique_ptr<RecommendationWriter> open_writer(const std::filesystem::path& file,
                                                  const RecommendationNames& names) {
  if (file.extension() == ".parquet") return std::make_unique<TableWriter>(file, names);
  return std::make_unique<TextWriter>(file, names, file.extension() == ".jsonl");
}

}  // namespace convoy::tasks
