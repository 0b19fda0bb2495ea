#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/text_source.h"
#include "convoy/tasks/each_row.h"
#include "convoy/tasks/known_text.h"
#include "convoy/tasks/language/task.h"
#include "convoy/tasks/text_output.h"

// What may stand in place of [MASK] in texts.
namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// Texts as ids, and where tokens are hidden.
struct HiddenTexts {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<int64_t>> places;
  int64_t most_hidden = 0;  // in a text
};

HiddenTexts read_hidden(const std::string& file, const std::string& column,
                        const text::Tokenizer& tokenizer, int64_t mask_id, int64_t max_length) {
  HiddenTexts out;
  data::read_texts(file, column,
                   [&](const data::TextBatch& batch) {
                     for (int64_t i = 0; i < batch.size(); ++i) {
                       out.texts.push_back(trim(batch.text(i)));
                     }
                   },
                   {});
  for (size_t i = 0; i < out.texts.size(); ++i) {
    auto& ids = out.ids.emplace_back();
    auto& places = out.places.emplace_back();
    tokenizer.encode(out.texts[i], ids);
    for (size_t place = 0; place < ids.size(); ++place) {
      if (ids[place] == mask_id) places.push_back(static_cast<int64_t>(place));
    }
    if (places.empty()) {
      fail<UsageError>("data", "text {} of {} has no [MASK] to say something for: '{}'", i + 1,
                       file, out.texts[i].substr(0, 80));
    }
    std::vector<int32_t> plain;
    tokenizer.encode(out.texts[i], plain, /*add_special_tokens=*/false);
    check_known(tokenizer, plain, {static_cast<int32_t>(mask_id)},
                fmt::format("text {} of {}", i + 1, file), out.texts[i]);
    out.most_hidden = std::max<int64_t>(out.most_hidden, std::ssize(places));
    if (std::ssize(ids) > max_length) {
      fail<UsageError>("data", "text {} of {} has {} tokens, the model {} positions", i + 1, file,
                       ids.size(), max_length);
    }
  }
  if (out.texts.empty()) fail<FileError>("data", "{} has no text", file);
  return out;
}

nn::Bundle batch_of(const HiddenTexts& texts, const std::vector<int64_t>& rows, int64_t pad_id) {
  int64_t longest = 0;
  for (const int64_t row : rows) {
    longest = std::max(longest, std::ssize(texts.ids[static_cast<size_t>(row)]));
  }
  auto ids = at::full({std::ssize(rows), longest}, pad_id, at::kLong);
  auto mask = at::zeros(ids.sizes(), at::kBool);
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const auto& from = texts.ids[static_cast<size_t>(rows[static_cast<size_t>(i)])];
    std::copy(from.begin(), from.end(), ids.data_ptr<int64_t>() + i * longest);
    mask[i].narrow(0, 0, std::ssize(from)).fill_(true);
  }
  return {{"input_ids", ids}, {"key_mask", mask}};
}

/// The `k` best ids of each hidden token and their probabilities, [B, most hidden, k, 2] in a row.
at::Tensor best_of(const at::Tensor& logits, const at::Tensor& rows, const HiddenTexts& texts,
                   int64_t k) {
  auto out = at::zeros({rows.size(0), texts.most_hidden, k, 2}, at::kDouble);
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const auto& places = texts.places[static_cast<size_t>(rows[i].item<int64_t>())];
    for (int64_t m = 0; m < std::ssize(places); ++m) {
      const auto scores = logits[i][places[static_cast<size_t>(m)]].to(at::kFloat).softmax(0);
      const auto [best, ids] = scores.topk(k);
      out[i][m].select(1, 0).copy_(ids);
      out[i][m].select(1, 1).copy_(best);
    }
  }
  return out.flatten(1);
}

}  // namespace

void LanguageTask::fill_masks(const Prediction& asked, const Run& run,
                              const train::TrainingArguments& training) {
  if (asked.data.empty()) {
    fail<UsageError>("tasks",
                     "there are no texts; try --data FILE, in which [MASK] stands for what is "
                     "wanted: .txt (a text a line), .jsonl or .parquet");
  }
  if (asked.to_file()) check_output(asked.output, "tokens", /*tables=*/false, {asked.data});
  const auto& words = tokenizer();
  const auto texts =
      read_hidden(asked.data, data_.column, words, masking().mask_id, config_->max_length());
  const int64_t k = std::min(top_k_, config_->num_ids());
  const auto pad = config_->to_json().value("pad_token_id", Json());
  const auto data = train::make_map_dataset(
      std::ssize(texts.texts),
      [&texts, id = pad.is_number_integer() ? pad.get<int64_t>() : 0](
          const std::vector<int64_t>& rows) { return batch_of(texts, rows, id); });
  auto job = train::join_job(training.parallel);
  train::Trainer trainer(run.factory, training, nullptr, nullptr, job, run.fill);
  if (job.is_main()) asked.tell(*run.notes);
  std::optional<TextOutput> output;
  const bool json = fs::path(asked.output).extension() == ".jsonl";
  if (job.is_main() && !asked.output.empty()) {
    output.emplace(asked.output);
    if (!json) output->put("row,mask,rank,token,score\n");
  }
  const auto name_of = [&](double number) {
    const auto id = static_cast<int32_t>(number);
    try {
      return words.token(id);
    } catch (const UsageError&) {  // a model may have more ids than its tokenizer
      return fmt::format("#{}", id);
    }
  };
  const auto show = [&](int64_t row, size_t mask, const double* best) {
    if (!output) fmt::print("row {}, mask {}\n", row, mask + 1);
    for (int64_t rank = 1; rank <= k; ++rank, best += 2) {
      const auto token = name_of(best[0]);
      if (!output) {
        fmt::print("  {:>3}. {:<16} {:.4f}\n", rank, printable(token), best[1]);
      } else if (json) {
        output->put(json_line({{"row", row},
                               {"mask", mask + 1},
                               {"rank", rank},
                               {"token", token},
                               {"score", best[1]}}) +
                    "\n");
      } else {
        output->put(
            fmt::format("{},{},{},{},{}\n", row, mask + 1, rank, csv_value(token), best[1]));
      }
    }
  };
  int64_t rows = 0;
  each_row(
      trainer, *data, texts.most_hidden * k * 2, "text",
      [&](const nn::Bundle& out, const at::Tensor& numbers) {
        return best_of(out.at("logits"), numbers, texts, k);
      },
      [&](int64_t row, std::span<const double> best) {
        if (asked.rows > 0 && row >= asked.rows) return;
        ++rows;
        const auto i = static_cast<size_t>(row);
        if (!output) fmt::print("{}\n", printable(texts.texts[i]));
        for (size_t m = 0; m < texts.places[i].size(); ++m) {
          show(row, m, best.data() + m * static_cast<size_t>(k) * 2);
        }
      });
  if (output) output->finish();
  if (asked.to_file() && job.is_main()) {
    fmt::print("wrote {} ({})\n", asked.output, plural(rows, "text"));
  }
}

}  // namespace convoy::tasks
