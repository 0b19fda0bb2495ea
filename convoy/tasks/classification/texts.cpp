#include "convoy/tasks/classification/texts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/tasks/known_text.h"

namespace convoy::tasks {

namespace {

bool is_number(const std::string& text) {
  int64_t number = 0;
  return parse_number(text, number);
}

/// Ids of one text, or of a pair.
struct Row {
  std::vector<int32_t> ids;
  int64_t first_length = 0;  ///< of the first text with what stands around it
  int64_t label = 0;
};

/// Numbers of tokens that a pair keeps in `room` tokens, as `longest_first` of Hugging Face's
/// tokenizers cuts it: the longer text down to the length of the other, then both to a half. Of an
/// odd room the longer text gets more, of two equal ones the second.
std::pair<int64_t, int64_t> kept_of(int64_t first, int64_t second, int64_t room) {
  if (first > second) {
    const auto [less, more] = kept_of(second, first, room);
    return {more, less};
  }
  second = std::min(second, std::max(first, room - first));
  if (first + second <= room) return {first, second};
  return {room / 2, room - room / 2};
}

/// Adds BERT's special tokens to texts: [CLS] a [SEP], or [CLS] a [SEP] b [SEP].
class Framer {
 public:
  Framer(const tokenizers::Tokenizer& tokenizer, int64_t max_length)
      : tokenizer_(tokenizer), max_length_(max_length), cls_(need("[CLS]")), sep_(need("[SEP]")) {}

  Row frame(const std::string& text, const std::string* second) const {
    auto a = plain(text), b = second != nullptr ? plain(*second) : std::vector<int32_t>();
    const int64_t room = std::max<int64_t>(0, max_length_ - (second != nullptr ? 3 : 2));
    const auto [kept_a, kept_b] = kept_of(std::ssize(a), std::ssize(b), room);
    a.resize(static_cast<size_t>(kept_a));
    b.resize(static_cast<size_t>(kept_b));
    Row row;
    row.ids.push_back(cls_);
    row.ids.insert(row.ids.end(), a.begin(), a.end());
    row.ids.push_back(sep_);
    row.first_length = std::ssize(row.ids);
    if (second == nullptr) return row;
    row.ids.insert(row.ids.end(), b.begin(), b.end());
    row.ids.push_back(sep_);
    return row;
  }

  bool knows(const Row& row) const { return !is_unknown(tokenizer_, row.ids, {cls_, sep_}); }

 private:
  int32_t need(const char* token) const {
    const auto id = tokenizer_.id_of(token);
    if (id) return *id;
    fail<UsageError>("tasks", "the tokenizer has no token {}; expected one of BERT's", token);
  }

  std::vector<int32_t> plain(const std::string& text) const {
    std::vector<int32_t> ids;
    tokenizer_.encode(text, ids, /*add_special_tokens=*/false);
    return ids;
  }

  const tokenizers::Tokenizer& tokenizer_;
  int64_t max_length_;
  int32_t cls_, sep_;
};

nn::Bundle batch_of(const std::vector<Row>& all, const std::vector<int64_t>& rows, bool pairs,
                    const Padding& padding) {
  int64_t longest = 0, shortest = INT64_MAX;
  for (const int64_t row : rows) {
    const auto length = std::ssize(all[static_cast<size_t>(row)].ids);
    longest = std::max(longest, length);
    shortest = std::min(shortest, length);
  }
  longest = std::min((longest + padding.multiple - 1) / padding.multiple * padding.multiple,
                     padding.most);
  const auto B = std::ssize(rows);
  auto ids = at::full({B, longest}, padding.id, at::kLong), types = at::zeros_like(ids);
  auto mask = at::zeros({B, longest}, at::kBool), labels = at::empty({B}, at::kLong);
  for (int64_t i = 0; i < B; ++i) {
    const auto& row = all[static_cast<size_t>(rows[static_cast<size_t>(i)])];
    const auto length = std::ssize(row.ids);
    std::copy(row.ids.begin(), row.ids.end(), ids.data_ptr<int64_t>() + i * longest);
    types[i].narrow(0, row.first_length, length - row.first_length).fill_(1);
    mask[i].narrow(0, 0, length).fill_(true);
    labels.data_ptr<int64_t>()[i] = row.label;
  }
  nn::Bundle out{{"input_ids", ids}, {"labels", labels}};
  if (pairs) out["token_type_ids"] = types;
  if (shortest < longest) out["key_mask"] = mask;
  return out;
}

/// Warns of texts with unknown tokens alone. Throws where that is so for most texts with labels:
/// the tokenizer must be another.
void tell_unknown(const std::vector<size_t>& unknown, const data::LabelledTexts& texts,
                  const std::string& where, std::vector<std::string>* notes) {
  if (unknown.empty()) return;
  const auto first = unknown.front();
  const auto shown = printable(texts.texts[first].substr(0, 80));
  const char* only = "only tokens that the tokenizer does not know";
  const auto what = unknown.size() == 1
                        ? fmt::format("text {} of {} has {}: '{}'", first + 1, where, only, shown)
                        : fmt::format("{} of the {} texts of {} have {}, such as text {}: '{}'",
                                      unknown.size(), texts.size(), where, only, first + 1, shown);
  if (!texts.labels.empty() && 2 * std::ssize(unknown) > texts.size()) {
    fail<UsageError>("data", "{}; try the tokenizer that belongs to the text's language", what);
  }
  if (notes != nullptr) notes->push_back("warning: " + what);
}

}  // namespace

Labels::Labels(const std::vector<std::string>& occurring) {
  const std::set<std::string> names(occurring.begin(), occurring.end());
  names_.assign(names.begin(), names.end());
  if (!std::all_of(names_.begin(), names_.end(), is_number)) return;
  std::stable_sort(names_.begin(), names_.end(),
                   [](const auto& a, const auto& b) { return std::stoll(a) < std::stoll(b); });
}

Labels Labels::of_config(const Json& config, const std::string& where) {
  constexpr const char* kProblem = "single_label_classification";
  const auto problem = config.value("problem_type", Json());
  if (!problem.is_null() && problem != Json(kProblem)) {
    fail<FileError>("tasks",
                    "{}: problem_type = {} is not supported: a classifier gives each text one "
                    "label here; expected \"{}\"; where that is what it shall learn, write so "
                    "into that file",
                    where, problem.dump(), kProblem);
  }
  Labels out;
  const auto found = config.find("id2label");
  if (found == config.end() || !found->is_object()) return out;
  for (size_t id = 0; id < found->size(); ++id) {
    const auto name = found->find(std::to_string(id));
    if (name == found->end() || !name->is_string()) {
      fail<FileError>("tasks", "{}: id2label names no label {}; expected 0 to {}", where, id,
                      found->size() - 1);
    }
    out.names_.push_back(name->get<std::string>());
  }
  return out;
}

Labels Labels::placed_as(const Labels& own) const {
  Labels out = own;
  const auto fresh = shared_with(own, false);
  auto next = fresh.begin();
  for (auto& name : out.names_) {
    if (find(name) < 0) name = *next++;
  }
  return next == fresh.end() ? out : *this;  // `own` has a name twice
}

std::vector<std::string> Labels::shared_with(const Labels& other, bool shared) const {
  std::vector<std::string> out;
  for (const auto& name : names_) {
    if ((other.find(name) >= 0) == shared) out.push_back(name);
  }
  return out;
}

int64_t Labels::find(const std::string& name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  return at == names_.end() ? -1 : at - names_.begin();
}

void Labels::write(Json& config) const {
  config["id2label"] = config["label2id"] = Json::object();
  for (size_t id = 0; id < names_.size(); ++id) {
    config["id2label"][std::to_string(id)] = names_[id];
    config["label2id"][names_[id]] = id;
  }
}

std::shared_ptr<dataset::Dataset> make_text_dataset(
    const data::LabelledTexts& texts, const Labels& labels, const tokenizers::Tokenizer& tokenizer,
    const Padding& padding, const std::string& where, std::vector<std::string>* notes) {
  const Framer framer(tokenizer, padding.most);
  const bool pairs = !texts.seconds.empty();
  std::vector<Row> rows;
  std::vector<size_t> unknown;
  for (size_t i = 0; i < texts.texts.size(); ++i) {
    auto row = framer.frame(texts.texts[i], pairs ? &texts.seconds[i] : nullptr);
    if (!texts.labels.empty()) row.label = labels.find(texts.labels[i]);
    if (row.label < 0) {
      fail<UsageError>("data",
                       "text {} of {} is labelled '{}', which is none of the model's labels: {}{}",
                       i + 1, where, texts.labels[i], join(labels.names()),
                       did_you_mean(texts.labels[i], labels.names()));
    }
    if (!framer.knows(row)) unknown.push_back(i);
    rows.push_back(std::move(row));
  }
  tell_unknown(unknown, texts, where, notes);
  std::vector<int64_t> lengths;
  for (const auto& row : rows) lengths.push_back(std::ssize(row.ids));
  return dataset::make_map_dataset(
      texts.size(),
      [rows = std::move(rows), pairs, padding](const std::vector<int64_t>& wanted) {
        return batch_of(rows, wanted, pairs, padding);
      },
      std::move(lengths));
}

}  // namespace convoy::tasks
