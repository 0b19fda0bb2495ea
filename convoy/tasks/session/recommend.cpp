#include "convoy/tasks/session/recommend.h"

#include <ATen/Functions.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/data/recommendation_file.h"

namespace convoy::tasks {

void recommend(train::Trainer& trainer, const train::Dataset& data, const std::string& item_feature,
               int64_t top_k, bool exclude_seen,
               const std::function<void(const Recommendation&)>& use) {
  trainer.predict(data, [&](const parallel::MicroBatch& batch, const nn::Bundle& out,
                            int64_t num_samples, int64_t first) {
    auto scores = out.at("scores");
    if (exclude_seen) {
      // Column c is id c + 1; padding (id 0) falls on a column that is cut off again.
      auto wide = at::cat({scores.new_zeros({scores.size(0), 1}), scores}, 1);
      wide.scatter_(1, batch.inputs.at(item_feature).to(wide.device()),
                    -std::numeric_limits<float>::infinity());
      scores = wide.narrow(1, 1, scores.size(1));
    }
    const int64_t k = std::min(top_k, scores.size(1));
    auto [best, columns] = scores.topk(k, 1);
    auto values = best.to(at::kCPU).contiguous();
    auto ids = (columns + 1).to(at::kCPU).contiguous();
    auto sessions = batch.inputs.at(item_feature).to(at::kCPU).contiguous();
    for (int64_t i = 0; i < num_samples; ++i) {
      Recommendation row;
      row.row = first + i;
      for (int64_t t = 0; t < sessions.size(1); ++t) {
        const int64_t id = sessions.data_ptr<int64_t>()[i * sessions.size(1) + t];
        if (id != 0) row.session.push_back(id);
      }
      for (int64_t j = 0; j < k; ++j) {
        float score = values.data_ptr<float>()[i * k + j];
        if (score == -std::numeric_limits<float>::infinity()) break;  // the rest was seen
        if (!std::isfinite(score)) {
          fail<NumericError>("train",
                             "the scores of row {} are not finite; got {}; look for extreme values "
                             "in the data, or try without fp16",
                             row.row, score);
        }
        row.ids.push_back(ids.data_ptr<int64_t>()[i * k + j]);
        row.scores.push_back(score);
      }
      use(row);
    }
  });
}

namespace {

class TextWriter : public RecommendationWriter {
 public:
  TextWriter(const std::filesystem::path& file, const data::ItemNames& names, bool json)
      : file_(file), names_(names), json_(json), out_(file_.temporary()) {
    if (!json_) out_ << "row,rank,item_id,score,name\n";
  }

  void write(const Recommendation& row) override {
    for (size_t i = 0; i < row.ids.size(); ++i) {
      auto raw = names_.raw_id(row.ids[i]);
      auto name = names_.name(row.ids[i]);
      if (json_) {
        Json line{{"row", row.row}, {"rank", i + 1}, {"item_id", raw}, {"score", row.scores[i]}};
        if (!name.empty()) line["name"] = name;
        out_ << line.dump() << '\n';
      } else {
        out_ << fmt::format("{},{},{},{},{}\n", row.row, i + 1, quoted(raw), row.scores[i],
                            quoted(name));
      }
    }
  }

  void finish() override {
    out_.close();
    if (!out_) {
      fail<FileError>("train", "cannot write {}: is the disk full?", file_.temporary().string());
    }
    file_.commit();
  }

 private:
  static std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string out = "\"";
    for (char c : text) {
      if (c == '"') out += '"';
      out += c;
    }
    return out + "\"";
  }

  AtomicFile file_;
  const data::ItemNames& names_;
  bool json_;
  std::ofstream out_;
};

class ParquetWriter : public RecommendationWriter {
 public:
  ParquetWriter(const std::filesystem::path& file, const data::ItemNames& names)
      : names_(names), file_(file) {}

  void write(const Recommendation& row) override {
    for (size_t i = 0; i < row.ids.size(); ++i) {
      file_.add({row.row, static_cast<int64_t>(i) + 1, names_.raw_id(row.ids[i]), row.scores[i],
                 names_.name(row.ids[i])});
    }
  }

  void finish() override { file_.finish(); }

 private:
  const data::ItemNames& names_;
  data::RecommendationFile file_;
};

}  // namespace

std::unique_ptr<RecommendationWriter> open_writer(const std::filesystem::path& file,
                                                  const data::ItemNames& names) {
  auto ending = file.extension().string();
  if (ending == ".parquet") return std::make_unique<ParquetWriter>(file, names);
  if (ending == ".csv" || ending == ".jsonl") {
    return std::make_unique<TextWriter>(file, names, ending == ".jsonl");
  }
  fail<UsageError>("train",
                   "cannot write recommendations to {}; expected a name that ends in "
                   ".csv, .jsonl or .parquet",
                   file.string());
}

}  // namespace convoy::tasks
