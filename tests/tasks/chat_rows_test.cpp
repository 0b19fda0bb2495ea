#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/tasks/chat/chat_data.h"

namespace convoy::tasks {
namespace {

/// Conversations of these lengths; the last token of each is learnt. Ids count on.
std::shared_ptr<ChatRows> conversations(const std::vector<int64_t>& lengths) {
  auto out = std::make_shared<ChatRows>();
  for (const int64_t length : lengths) {
    chat::Row row;
    for (int64_t i = 0; i < length; ++i) {
      row.ids.push_back(static_cast<int32_t>(out->ids.size() + row.ids.size() + 100));
      row.is_target.push_back(i + 1 == length);
    }
    out->add(row);
  }
  return out;
}

at::Tensor row_of(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong).unsqueeze(0);
}

TEST(ChatRows, UnpackedHaveOnlyIdsAndLabels) {
  const auto all = conversations({3, 2, 4});
  const auto rows = rows_of_conversations(*all, {1, 3}, std::nullopt);
  EXPECT_EQ(rows, (RowsOfConversations{{1}, {2}}));
  const auto data = make_chat_dataset(all, rows, false, {.id = 7});
  EXPECT_EQ(data->row_lengths(), (std::vector<int64_t>{2, 4}));
  const auto batch = data->of_rows({0, 1}).inputs;
  EXPECT_EQ(batch.size(), 2u);
  EXPECT_TRUE(batch.at("input_ids")[0].equal(row_of({103, 104, 7, 7})[0]));
  EXPECT_TRUE(batch.at("labels")[1].equal(row_of({-100, -100, -100, 108})[0]));
}

TEST(ChatRows, PackedTellTheirDocumentsAndPositions) {
  const auto all = conversations({3, 2, 4, 5});
  const auto rows = rows_of_conversations(*all, {1, 4}, 7);
  EXPECT_EQ(rows, (RowsOfConversations{{1, 3}, {2}}));
  const auto data = make_chat_dataset(all, rows, true, {.id = 7, .multiple = 4});
  EXPECT_EQ(data->row_lengths(), (std::vector<int64_t>{7, 4}));
  const auto batch = data->of_rows({0}).inputs;
  EXPECT_TRUE(batch.at("input_ids").equal(row_of({103, 104, 109, 110, 111, 112, 113, 7})));
  EXPECT_TRUE(batch.at("labels").equal(row_of({-100, 104, -100, -100, -100, -100, 113, -100})));
  EXPECT_TRUE(batch.at("documents").equal(row_of({0, 0, 1, 1, 1, 1, 1, -1})));
  EXPECT_TRUE(batch.at("positions").equal(row_of({0, 1, 0, 1, 2, 3, 4, 0})));
}

}  // namespace
}  // namespace convoy::tasks
