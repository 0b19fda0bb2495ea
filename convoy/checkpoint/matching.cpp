#include "convoy/checkpoint/matching.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/dtypes.h"

namespace convoy::checkpoint {

using parallel::State;
using parallel::StateTensor;

namespace {

/// Whether tensors of that dtype may be read into `home`: real numbers into any real dtype, with a
/// check of the values, others only into their own.
bool fits(const std::string& dtype, at::ScalarType home) {
  if (c10::isFloatingType(home)) return is_real(dtype);
  const auto found = dtypes().find(dtype);
  return found != dtypes().end() && found->second == home;
}

bool begins_with(const std::vector<std::string>& beginnings, const std::string& name) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const auto& beginning) { return name.starts_with(beginning); });
}

}  // namespace

at::Tensor mapped(const formats::SafetensorsFolder& file, const std::string& name) {
  const auto& entry = file.entry(name);
  return at::from_blob(const_cast<std::byte*>(file.bytes(name).data()), entry.shape,
                       dtypes().at(entry.dtype));
}

std::string model_name(const std::string& file_name, const models::WeightLayout& layout) {
  for (const auto& [spelled, own] : layout.spellings) {
    if (file_name.starts_with(spelled)) return own + file_name.substr(spelled.size());
  }
  return file_name;
}

bool is_of_others(const std::string& file_name, const models::WeightLayout& layout) {
  return begins_with(layout.others, file_name);
}

void refuse(const std::filesystem::path& path, const char* what, std::vector<std::string> wrong) {
  constexpr size_t kShown = 30;
  const size_t more = wrong.size() > kShown ? wrong.size() - kShown : 0;
  wrong.resize(wrong.size() - more);
  fail<FileError>("checkpoint", "{} {}{}{}", path.string(), what, fmt::join(wrong, "; "),
                  more > 0 ? fmt::format("; and {} more", more) : "");
}

Matching::Matching(const formats::SafetensorsFolder& file, const State& state,
                   const models::WeightLayout& layout)
    : file_(file), layout_(layout) {
  for (const auto& tensor : state) places_.emplace(tensor.name, &tensor);
  for (const auto& [name, source] : file.tensors()) take(name);
  for (const auto& alias : layout.aliases) match_alias(alias);
  match_head();
  for (const auto& [name, tensor] : places_) check(name, *tensor);
  complain();
}

std::string Matching::new_name(const std::string& name) const {
  for (const auto& [old, now] : layout_.old_ends) {
    if (name.ends_with(old)) return name.substr(0, name.size() - old.size()) + now;
  }
  return model_name(name, layout_);
}

void Matching::take(const std::string& name) {
  if (is_of_others(name, layout_)) return;
  const auto now = new_name(name);
  if (now == layout_.head) head_ = name;
  if (begins_with(layout_.of_other_heads, name)) {
    report.skipped.push_back(name);
    return;
  }
  const auto home = places_.contains(now) ? now : layout_.prefix + now;
  if (places_.contains(home)) {
    auto [first, fresh] = source_of_.emplace(home, name);
    if (!fresh) wrong_.push_back(fmt::format("{} is there as {} too", home, first->second));
  } else if (is_buffer(name) || begins_with(layout_.unused, name)) {
    report.skipped.push_back(name);
  } else if (now != layout_.head && !is_alias(name) && !take_stack(name)) {
    left_over_.push_back(name);
  }
}

// Hugging Face's classes have the matrices of all experts in one tensor, and so have some files.
bool Matching::take_stack(const std::string& name) {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kStacks{
      {".experts.gate_up_proj", {"gate_proj", "up_proj"}}, {".experts.down_proj", {"down_proj"}}};
  const auto found = std::find_if(kStacks.begin(), kStacks.end(),
                                  [&](const auto& stack) { return name.ends_with(stack.first); });
  if (found == kStacks.end()) return false;
  const auto& shape = file_.entry(name).shape;
  const auto num_leaves = std::ssize(found->second);
  if (shape.size() != 3 || shape[1] % num_leaves != 0) return false;
  const auto now = new_name(name);
  const auto module = now.substr(0, now.rfind('.') + 1);
  const auto place = [&](int64_t expert, const std::string& leaf) {
    const auto own = fmt::format("{}{}.{}.weight", module, expert, leaf);
    return places_.contains(own) ? own : layout_.prefix + own;
  };
  if (!places_.contains(place(0, found->second.front()))) return false;
  const std::vector<int64_t> part{shape[1] / num_leaves, shape[2]};
  for (int64_t expert = 0; expert < shape[0]; ++expert) {
    for (int64_t leaf = 0; leaf < num_leaves; ++leaf) {
      const auto home = place(expert, found->second[static_cast<size_t>(leaf)]);
      const auto wanted = places_.find(home);
      if (wanted == places_.end() || wanted->second->shape != part) {
        wrong_.push_back(
            fmt::format("{} is [{}], which does not fit {}", name, fmt::join(shape, ", "), home));
        return true;
      }
      source_of_.emplace(home, name);
      begin_of_[home] = (expert * num_leaves + leaf) * part[0] * part[1];
    }
  }
  return true;
}

int64_t Matching::begin_of(const std::string& name) const {
  const auto found = begin_of_.find(name);
  return found == begin_of_.end() ? 0 : found->second;
}

bool Matching::is_alias(const std::string& name) const {
  return std::any_of(layout_.aliases.begin(), layout_.aliases.end(),
                     [&](const auto& alias) { return alias.name == name; });
}

void Matching::match_alias(const models::WeightLayout::Alias& alias) {
  if (!places_.contains(alias.of)) return;
  const bool there = file_.tensors().contains(alias.name);
  const bool has_place = places_.contains(alias.name);
  const auto own = source_of_.find(alias.of);
  if (!there) {
    if (has_place && own != source_of_.end()) source_of_.emplace(alias.name, own->second);
  } else if (own == source_of_.end()) {
    source_of_.emplace(alias.of, alias.name);
  } else if (!has_place && !same(alias.name, own->second)) {
    if (alias.counts) {
      report.skipped.push_back(std::exchange(own->second, alias.name));
    } else {
      wrong_.push_back(fmt::format("{} differs from {}, which is the same weight here", alias.name,
                                   own->second));
    }
  }
}

bool Matching::is_buffer(const std::string& name) const {
  return std::any_of(layout_.buffers.begin(), layout_.buffers.end(),
                     [&](const auto& end) { return name.ends_with(end); });
}

/// Matches the output matrix of the files: a tied one must equal the embedding. Without one in the
/// files it is drawn.
void Matching::match_head() {
  if (head_.empty()) {
    if (places_.contains(layout_.head)) report.drawn.push_back(layout_.head);
    return;
  }
  if (places_.contains(layout_.head)) return;
  const auto [table, fresh] = source_of_.emplace(layout_.tied_to, head_);
  if (fresh || same(head_, table->second)) return;
  wrong_.push_back(
      fmt::format("{} differs from {}, which it is tied to (try "
                  "tie_word_embeddings = false in its config.json)",
                  head_, table->second));
}

bool Matching::same(const std::string& a, const std::string& b) const {
  if (!readable(a) || !readable(b) || file_.entry(a).shape != file_.entry(b).shape) return false;
  const auto one = mapped(file_, a).to(at::kFloat), other = mapped(file_, b).to(at::kFloat);
  return one.equal(other);  // on the host
}

bool Matching::readable(const std::string& name) const {
  return dtypes().contains(file_.entry(name).dtype);
}

void Matching::check(const std::string& name, const StateTensor& tensor) {
  auto found = source_of_.find(name);
  if (found == source_of_.end()) {
    if (name == layout_.head) return;
    if (begins_with(layout_.may_lack, name)) {
      report.drawn.push_back(name);
    } else {
      wrong_.push_back(fmt::format("{} is missing{}", name, did_you_mean(name, left_over_)));
    }
    return;
  }
  const auto& entry = file_.entry(found->second);
  if (!fits(entry.dtype, tensor.dtype)) {
    wrong_.push_back(
        fmt::format("{} is {}; expected {}", found->second, entry.dtype,
                    c10::isFloatingType(tensor.dtype) ? "F32, F16 or BF16" : "whole numbers"));
  } else if (!is_part(name) && entry.shape != tensor.shape) {
    wrong_.push_back(fmt::format("{} is [{}] instead of [{}]", found->second,
                                 fmt::join(entry.shape, ", "), fmt::join(tensor.shape, ", ")));
  }
}

void Matching::complain() {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : places_) names.push_back(name);
  for (const auto& name : left_over_) {
    wrong_.push_back(fmt::format("{} is not in the model{}", name, did_you_mean(name, names)));
  }
  if (wrong_.empty()) return;
  refuse(file_.path(), "does not fit the model: ", wrong_);
}

}  // namespace convoy::checkpoint
