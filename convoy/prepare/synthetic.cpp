#include "convoy/prepare/synthetic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/sessions_files.h"
#include "convoy/prepare/sessions_schema.h"

namespace convoy::prepare {
namespace {

constexpr int64_t kSuccessors = 4;
constexpr double kFollow[kSuccessors] = {0.40, 0.60, 0.72, 0.80};  // cumulative
constexpr double kSecondOrder = 0.90;                              // cumulative
constexpr int64_t kCategories = 50;

/// Generator of sessions, each of which is a random walk over items. A session depends on the seed
/// and its number alone.
class World {
 public:
  World(uint64_t seed, int64_t num_items)
      : num_items_(num_items),
        successor_key_(hash_combine(seed, hash_text("successors"))),
        walk_key_(hash_combine(seed, hash_text("walks"))),
        item_key_(hash_combine(seed, hash_text("items"))) {}

  /// Draws the items of session `number`.
  void walk(int64_t number, const SyntheticOptions& options, std::vector<int64_t>& items) const {
    const uint64_t key = hash_combine(walk_key_, static_cast<uint64_t>(number));
    uint64_t counter = 0;
    auto draw = [&] { return uniform01(key, counter++); };
    const int64_t length = length_of(draw(), options);
    items.clear();
    items.push_back(popular(draw()));
    while (static_cast<int64_t>(items.size()) < length) {
      const double how = draw();
      const double other = draw();
      if (how < kFollow[kSuccessors - 1]) {
        int64_t which = 0;
        while (how >= kFollow[which]) ++which;
        items.push_back(successor(items.back(), which));
      } else if (how < kSecondOrder && items.size() > 1) {
        items.push_back(successor(items[items.size() - 2], 0));
      } else {
        items.push_back(popular(other));
      }
    }
  }

  int64_t category(int64_t item) const {
    const auto categories = static_cast<double>(num_categories());
    const double u = uniform01(item_key_, static_cast<uint64_t>(item) * 2);
    return 1 + std::min(num_categories() - 1, static_cast<int64_t>(u * categories));
  }
  int64_t num_categories() const { return std::min(kCategories, num_items_); }
  /// Price of an item, in [0, 1).
  float price(int64_t item) const {
    return static_cast<float>(uniform01(item_key_, static_cast<uint64_t>(item) * 2 + 1));
  }

 private:
  static int64_t length_of(double u, const SyntheticOptions& options) {
    const double least = static_cast<double>(options.min_length);
    const double spread = static_cast<double>(options.max_length) - least + 1;
    const double stops = 1 / (options.mean_length - least + 1);  // after each item
    const double more = options.mean_length > 0 ? std::log1p(-u) / std::log1p(-stops) : u * spread;
    return options.min_length + static_cast<int64_t>(std::min(more, spread - 1));
  }
  /// Draws an id with a density proportional to 1 / sqrt(id).
  int64_t popular(double u) const {
    return 1 +
           std::min(num_items_ - 1, static_cast<int64_t>(u * u * static_cast<double>(num_items_)));
  }
  int64_t successor(int64_t item, int64_t which) const {
    return popular(uniform01(successor_key_, static_cast<uint64_t>(item * kSuccessors + which)));
  }

  int64_t num_items_;
  uint64_t successor_key_;
  uint64_t walk_key_;
  uint64_t item_key_;
};

SyntheticOptions checked(SyntheticOptions options) {
  constexpr int64_t kMost = int64_t{1} << 40;
  auto within = [](const char* flag, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) {
      fail<UsageError>("prepare", "{} is {}; expected {} to {}", flag, value, least, most);
    }
  };
  if (options.output.empty()) fail<UsageError>("prepare", "no output folder; try --output DIR");
  within("--items", options.num_items, 2, std::numeric_limits<int32_t>::max());
  within("--rows", options.num_rows, 1, kMost);
  if (options.num_valid_rows == -1) {
    options.num_valid_rows = std::clamp<int64_t>(options.num_rows / 10, 1, 50000);
  }
  within("--valid-rows", options.num_valid_rows, 1, kMost);
  within("--max-length", options.max_length, 2, 1 << 20);
  within("--min-length", options.min_length, 2, options.max_length);
  if (options.mean_length != 0 &&
      !(options.mean_length > static_cast<double>(options.min_length))) {
    fail<UsageError>("prepare", "--mean-length is {}; expected more than --min-length {}",
                     options.mean_length, options.min_length);
  }
  within("--row-group-size", options.row_group_size, 1,
         std::numeric_limits<int32_t>::max() / options.max_length);
  return options;
}

}  // namespace

SyntheticOptions synthetic_like(const std::string& name) {
  if (name != "rees46") {
    fail<UsageError>("prepare", "--like is '{}'; expected rees46", name);
  }
  SyntheticOptions out;
  out.num_items = 50000;
  out.num_rows = 20000;
  out.min_length = 2;
  out.mean_length = 6;
  out.features = true;
  return out;
}

SyntheticReport make_synthetic(const SyntheticOptions& given, const ProgressFn& progress) {
  constexpr int64_t kProgressRows = 8192;
  const SyntheticOptions options = checked(given);
  const World world(options.seed, options.num_items);
  std::vector<SessionWriter::Column> columns = {{formats::kItemColumn, false}};
  if (options.features) {
    columns.push_back({"category-list", false});
    columns.push_back({"price-list", true});
  }
  const size_t first_target = columns.size();
  if (options.targets) {
    columns.push_back({"bought", false, /*is_list=*/false});
    columns.push_back({"spent", true, /*is_list=*/false});
  }
  std::vector<int64_t> counts(static_cast<size_t>(options.num_items) + 1, 0);
  std::vector<int64_t> category_counts(static_cast<size_t>(world.num_categories()) + 1, 0);
  std::vector<int64_t> session;
  const int64_t total = options.num_rows + options.num_valid_rows;

  FileSet files(options.output);
  auto write_rows = [&](const std::string& name, int64_t begin, int64_t end, bool count) {
    SessionWriter writer = files.sessions(name, columns, options.row_group_size);
    for (int64_t number = begin; number < end; ++number) {
      world.walk(number, options, session);
      float spent = 0;
      for (int64_t item : session) {
        spent += world.price(item);
        writer.ints(0).push_back(item);
        counts[static_cast<size_t>(item)] += count;
        if (!options.features) continue;
        const int64_t category = world.category(item);
        category_counts[static_cast<size_t>(category)] += count;
        writer.ints(1).push_back(category);
        writer.floats(2).push_back(world.price(item));
      }
      if (options.targets) {
        writer.ints(first_target).push_back(2 * spent > static_cast<float>(session.size()));
        writer.floats(first_target + 1).push_back(spent);
      }
      writer.end_row(number + 1);
      if (progress && (number + 1) % kProgressRows == 0) progress(number + 1, total);
    }
    writer.close();
    return writer.num_row_groups();
  };

  SyntheticReport report;
  report.num_train_groups = write_rows("train.parquet", 0, options.num_rows, true);
  write_rows("valid.parquet", options.num_rows, total, false);
  if (progress) progress(total, total);
  report.num_train_rows = options.num_rows;
  report.num_valid_rows = options.num_valid_rows;

  auto write_vocabulary = [&](const std::string& name, const std::string& prefix,
                              const std::vector<int64_t>& occurrences) {
    std::vector<Item> items;
    for (size_t id = 1; id < occurrences.size(); ++id) {
      items.push_back(
          {static_cast<int64_t>(id), fmt::format("{}-{}", prefix, id), occurrences[id], ""});
    }
    const std::filesystem::path file = files.add(name);
    write_items(file, files.last(), items);
  };
  write_vocabulary("items.parquet", "item", counts);
  SchemaBuilder schema(options.min_length, options.max_length);
  schema.add_user(total);
  schema.add_item(options.num_items);
  if (options.features) {
    write_vocabulary("category.parquet", "category", category_counts);
    schema.add_categorical({.name = "category"}, world.num_categories());
    schema.add_continuous({.name = "price"}, 0, 1);
  }
  write_file(files.add("schema.json"), schema.schema().to_json());
  for (int64_t count : counts) report.num_train_events += count;
  files.commit(earlier_files(options.output));
  return report;
}

}  // namespace convoy::prepare
