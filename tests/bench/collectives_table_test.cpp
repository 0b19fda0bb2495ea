#include "convoy/bench/collectives_table.h"

#include <gtest/gtest.h>

namespace convoy::bench {
namespace {

/// Times of an engine with a latency of `latency` us and `gb_per_s`.
std::vector<CollectiveTime> ideal(const std::string& engine, double latency, double gb_per_s) {
  std::vector<CollectiveTime> out;
  for (int64_t bytes : {1 << 10, 1 << 16, 1 << 20, 1 << 26}) {
    out.push_back({engine, "all_reduce", "fp32", bytes, 4,
                   latency + static_cast<double>(bytes) / gb_per_s * 1e-3});
  }
  return out;
}

TEST(Collectives, BandwidthsAreThoseOfNcclTests) {
  CollectiveTime time{"shm", "all_reduce", "fp32", 64'000'000, 4, 8000};
  EXPECT_DOUBLE_EQ(time.algbw_gb_per_s(), 8);
  EXPECT_DOUBLE_EQ(time.busbw_gb_per_s(), 12);
  time.collective = "all_gather";
  EXPECT_DOUBLE_EQ(time.busbw_gb_per_s(), 6);
  time.collective = "broadcast";
  EXPECT_DOUBLE_EQ(time.busbw_gb_per_s(), 8);
}

TEST(Collectives, FitFindsLatencyAndBandwidth) {
  auto times = ideal("shm", 2.5, 12);
  const auto slow = ideal("gloo", 1400, 1.2);
  times.insert(times.end(), slow.begin(), slow.end());
  const auto fits = fit_collectives(times);
  ASSERT_EQ(fits.size(), 2u);
  EXPECT_NEAR(fits[0].latency_microseconds, 2.5, 1e-6);
  EXPECT_NEAR(fits[0].gb_per_s, 12, 1e-6);
  EXPECT_LT(fits[0].worst_error, 1e-9);
  EXPECT_EQ(fits[1].engine, "gloo");
  EXPECT_NEAR(fits[1].latency_microseconds, 1400, 1e-3);
  times.resize(1);
  EXPECT_TRUE(fit_collectives(times).empty());
}

TEST(Collectives, AFitHasNoNegativeLatency) {
  const std::vector<CollectiveTime> times{{"shm", "copy", "bytes", 1000, 1, 0.01},
                                          {"shm", "copy", "bytes", 2000, 1, 0.2},
                                          {"shm", "copy", "bytes", 3000, 1, 0.9}};
  EXPECT_EQ(fit_collectives(times)[0].latency_microseconds, 0);
}

TEST(Collectives, ComeBackFromJson) {
  const auto times = ideal("shm", 2.5, 12);
  const auto json = collectives_json(times);
  for (const char* field : {"engine", "collective", "dtype", "bytes", "ranks", "microseconds",
                            "algbw_gb_per_s", "busbw_gb_per_s"}) {
    EXPECT_TRUE(json[0].contains(field)) << field;
  }
  const auto back = collectives_from_json(Json::parse(json.dump()));
  ASSERT_EQ(back.size(), times.size());
  EXPECT_EQ(back[3].bytes, times[3].bytes);
  EXPECT_DOUBLE_EQ(back[3].microseconds, times[3].microseconds);
}

TEST(Collectives, TablesAndPicturesNameEveryEngine) {
  auto times = ideal("shm", 2.5, 12);
  const auto slow = ideal("gloo", 1400, 1.2);
  times.insert(times.end(), slow.begin(), slow.end());
  const auto text = collectives_text(times);
  EXPECT_NE(text.find("all_reduce, fp32, 4 ranks"), std::string::npos);
  EXPECT_NE(text.find("64.0 MiB"), std::string::npos);
  const auto svg = collectives_svg(times, "Collectives", "here");
  for (const char* engine : {"shm", "gloo"}) {
    EXPECT_NE(text.find(engine), std::string::npos);
    EXPECT_NE(svg.find(engine), std::string::npos);
  }
}

}  // namespace
}  // namespace convoy::bench
