#include "convoy/train/logging/event_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {

class EventStream : public InFolder {
 protected:
  void SetUp() override {
    pipe_ = folder_ / "events";
    ASSERT_EQ(::mkfifo(pipe_.c_str(), 0600), 0);
  }
  void TearDown() override {
    if (reader_ >= 0) ::close(reader_);
  }

  void open_reader() { reader_ = ::open(pipe_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }

  /// What lies in the pipe now.
  std::string read() {
    std::string all;
    std::array<char, 65536> part;
    for (ssize_t n; (n = ::read(reader_, part.data(), part.size())) > 0;) {
      all.append(part.data(), static_cast<size_t>(n));
    }
    return all;
  }
  static std::vector<Json> lines(const std::string& text) {
    std::vector<Json> out;
    for (const auto& line : split(text, '\n')) {
      if (!line.empty()) out.push_back(Json::parse(line));
    }
    return out;
  }

  std::filesystem::path pipe_;
  int reader_ = -1;
  std::vector<std::string> warnings_;
  std::function<void(const std::string&)> warn_ = [this](const std::string& text) {
    warnings_.push_back(text);
  };
};

TEST_F(EventStream, TellsWhatATrainingDoes) {
  open_reader();
  auto arguments = four_steps();
  arguments.output.events = pipe_.string();
  Trainer trainer(tiny_model(), arguments, random_sessions(45, 50, 8), random_sessions(9, 50, 8),
                  one_device());
  const auto metrics = trainer.train();
  std::string kinds;
  const auto told = lines(read());
  for (const auto& line : told) kinds += line.at("event").get<std::string>() + " ";
  EXPECT_EQ(kinds, "begin step step log step step log evaluate end ");
  EXPECT_EQ(told.front().at("max_steps"), 4);
  EXPECT_EQ(told[5].at("step"), 4);
  EXPECT_GT(told[3].at("loss"), 0);
  EXPECT_EQ(told.back().at("metrics").at("train_loss"), metrics.at("train_loss"));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(EventStream, ASlowReaderDelaysNothingAndHearsWhatIsMissing) {
  open_reader();
  const auto stream = make_event_stream(pipe_, warn_);
  const std::string text(1000, 'x');
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5000; ++i) stream->on_message(text);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  std::string all = read();
  std::thread late([&] {
    for (int i = 0; i < 40; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      all += read();
    }
  });
  stream->on_message("first that is heard again");
  stream->on_message("last");
  stream->on_train_end({});
  late.join();
  all += read();
  const auto told = lines(all);
  int64_t dropped = 0, messages = 0;
  for (const auto& line : told) {
    if (line.at("event") == "dropped") dropped += line.at("lines").get<int64_t>();
    if (line.at("event") == "message") ++messages;
  }
  EXPECT_GT(dropped, 1000);
  EXPECT_GT(messages, 1000);
  EXPECT_EQ(dropped + messages, 5002);
  EXPECT_EQ(told.back().at("event"), "end");
}

TEST_F(EventStream, TrainingGoesOnWithoutItsReader) {
  open_reader();
  const auto stream = make_event_stream(pipe_, warn_);
  ::close(std::exchange(reader_, -1));
  stream->on_message("one");
  stream->on_message("two");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("nobody reads output.events"), std::string::npos);
}

TEST_F(EventStream, WantsAPipeThatIsRead) {
  const auto error = [&](const std::filesystem::path& pipe) -> std::string {
    try {
      make_event_stream(pipe, warn_);
      return "no error";
    } catch (const UsageError& found) {
      return found.what();
    }
  };
  EXPECT_NE(error(pipe_).find("nobody reads it"), std::string::npos);
  EXPECT_NE(error(folder_ / "none").find("is no named pipe"), std::string::npos);
}

}  // namespace
}  // namespace convoy::train
