#include "convoy/parallel/pipeline/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text, int num_ranks = 2, int64_t num_micro_batches = 2) {
  try {
    from_csv(text, "pipe.csv", num_ranks, num_micro_batches);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ScheduleFile, IsReadBackAsWritten) {
  for (const auto* entry : pipeline_schedules()) {
    for (const int ranks : {1, 2, 4}) {
      for (const int64_t micro_batches : {1, 3, 8}) {
        std::vector<Pipe> pipes{loop_pipe(ranks, 1, micro_batches)};
        if (entry->interleaved) {
          pipes.push_back(loop_pipe(ranks, 2, micro_batches));
          pipes.push_back(v_pipe(ranks, micro_batches));
        }
        for (const auto& pipe : pipes) {
          const auto orders = entry->orders(pipe);
          const auto read = from_csv(to_csv(orders), "pipe.csv", ranks, micro_batches);
          EXPECT_EQ(read.orders, orders) << entry->name;
          EXPECT_EQ(read.pipe.rank_of, pipe.rank_of) << entry->name;
        }
      }
    }
  }
}

// As torch.distributed.pipelining writes 1f1b, with steps in which a rank does nothing.
TEST(ScheduleFile, CellsMayBeEmpty) {
  const auto read = from_csv("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n\r\n", "x", 2, 2);
  EXPECT_EQ(to_csv(read.orders), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST(ScheduleFile, EveryFaultIsNamedWithItsPlace) {
  const std::string second = "1F0,1B0,1F1,1B1\n";
  EXPECT_EQ(refusal("0F0,0F1,0B0,0B1\n" + second), "accepted");
  EXPECT_THAT(refusal("0F0,0F1,0B0,0B1\n" + second, 3),
              HasSubstr("is for 2 ranks, a line each; expected 3"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0B1\n" + second, 2, 3),
              HasSubstr("is for 2 micro-batches; gradient_accumulation_steps = 3"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0B1\n" + second, 2, 1),
              HasSubstr("pipe.csv, line 1, cell 2: '0F1' is of a micro-batch that there is not"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n"),
              HasSubstr("pipe.csv, line 2: there is no cell '1B1'"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0I1\n" + second),
              HasSubstr("pipe.csv, line 1: there is no cell '0W1'"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0W1\n" + second), HasSubstr("there is no cell '0I1'"));
  EXPECT_THAT(refusal("0F0,0F1,,0F1,0B0,0B1\n" + second),
              HasSubstr("pipe.csv, line 1, cell 4: '0F1' comes twice"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0I1,0W1,0B1\n" + second),
              HasSubstr("line 1, cell 6: '0B1': a backward comes whole or in halves"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,1B1\n1F0,1B0,1F1\n"),
              HasSubstr("line 2, cell 1: '1F0' is of a virtual stage that line 1 has"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,7B1\n"),
              HasSubstr("line 2, cell 4: '7B1' is of a virtual stage after 2"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,0X1\n" + second), HasSubstr("line 1, cell 4: '0X1' is no cell"));
  EXPECT_THAT(refusal("0F0,0F1,0B0,F1\n" + second), HasSubstr("line 1, cell 4: 'F1' is no cell"));
  EXPECT_THAT(refusal("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n"),
              HasSubstr("line 1, cell 3: '0B1' comes before that of micro-batch 0"));
  EXPECT_THAT(refusal("1F0,1B0,1F1,1B1\n0F0,0F1,0B0,0B1\n"), HasSubstr("neither in a loop"));
}

TEST(ScheduleFile, ACircleIsTold) {
  EXPECT_THAT(refusal("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
              HasSubstr("pipe.csv, line 1, cell 2: '0B0' waits for '1B0' (line 2, cell 3), before "
                        "which '1F1' waits for '0F1' (line 1, cell 3): a circle"));
  EXPECT_THAT(refusal("0B0,0F0,0F1,0B1\n1F0,1B0,1F1,1B1\n"),
              HasSubstr("line 1, cell 1: '0B0' waits for '0F0' (line 1, cell 2): a circle"));
  EXPECT_THAT(refusal("0F0,0F1,0W0,0I0,0B1\n1F0,1B0,1F1,1B1\n"),
              HasSubstr("line 1, cell 3: '0W0' waits for '0I0'"));
}

/// Every cell left out, doubled or on another line is refused, and so is every one that comes
/// before what it needs.
TEST(ScheduleFile, NothingWrongIsTaken) {
  const auto pipe = v_pipe(3, 4);
  const auto orders = kZeroBubble.orders(pipe);
  for (size_t r = 0; r < orders.size(); ++r) {
    for (size_t c = 0; c < orders[r].size(); ++c) {
      const auto text = to_text(orders[r][c]);
      auto broken = orders;
      auto& row = broken[r];
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
      EXPECT_THAT(refusal(to_csv(broken), 3, 4), HasSubstr("there is no cell")) << text;
      broken[(r + 1) % 3].push_back(orders[r][c]);
      EXPECT_THAT(refusal(to_csv(broken), 3, 4), HasSubstr("is of a virtual stage that line"))
          << text;
      broken = orders;
      row.push_back(orders[r][c]);
      EXPECT_THAT(refusal(to_csv(broken), 3, 4), HasSubstr(text + "' comes twice"));
    }
  }
}

}  // namespace
}  // namespace convoy::parallel
