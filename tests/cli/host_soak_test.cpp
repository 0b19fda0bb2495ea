#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <random>

#include "convoy/base/timing.h"
#include "tests/cli/command_testing.h"
#include "tests/launch/link_testing.h"

// Two hosts over a link, of which everything fails now and then, at times drawn by CONVOY_SEED, for
// CONVOY_SOAK_SECONDS: each run ends, with the bits of a calm one.
namespace convoy {
namespace {

/// A number of the environment.
int64_t soak_number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t number = otherwise;
  return text != nullptr && parse_number(text, number) ? number : otherwise;
}

class HostSoak : public CommandTest {
 protected:
  void SetUp() override {
    if (!link_.why_not().empty()) GTEST_SKIP() << link_.why_not();
    CommandTest::SetUp();
    make_sessions(400);
    fs::create_directory(folder_ / "tmp");
    fs::create_directory(folder_ / "disk");
    has_disk_ = shell("mount -t tmpfs -o size=4m none disk") == 0;
    link_.set_delay(kDelay);
  }

  void TearDown() override {
    if (has_disk_) shell("umount -l disk");
    CommandTest::TearDown();
  }

  static std::string train(const std::string& out, const std::string& options) {
    return fmt::format(
        "train{}--max_steps 120 --ddp_timeout 5 --save_strategy steps --save_steps 25 "
        "--save_total_limit 2 --output_dir {} {}",
        kTiny, out, options);
  }

  /// Trains on both hosts, which come again when they have ended, until the job has. Returns its
  /// exit code; 124: it hangs.
  int train_on_both(const std::string& command) {
    const auto on = [&](const std::string& host) {
      return fmt::format(
          "until [ -e done ]; do unshare --uts bash -c \"echo host-{0} > "
          "/proc/sys/kernel/hostname; exec ip netns exec {1} $convoy launch --nnodes 2 --node-rank "
          "{2} -n 2 --rdzv-endpoint {3}:29400 --local-addr {4} --rdzv-conf "
          "join_timeout=20,heartbeat_timeout=4,is_host=false {5}\" >> said-{0} 2>&1 && break; "
          "sleep "
          "0.3; done & ",
          host, link_.space(host), host == "a" ? 0 : 1, launch::Link::address("a"),
          launch::Link::address(host), command);
    };
    return shell(
        "rm -f done said-*; export TMPDIR=$PWD/tmp CONVOY_TOKEN=0123456789abcdef "
        "PATH=$PATH:/sbin:/usr/sbin; " +
        on("a") + on("b") +
        fmt::format("timeout -k 5 300 ip netns exec {} $convoy launch --serve-only --nnodes 2 "
                    "--max-restarts 1000 --rdzv-endpoint {}:29400 --rdzv-conf "
                    "last_call_timeout=60,heartbeat_timeout=4 > said-login 2>&1; code=$?; "
                    "touch done; wait; tail -n 60 said-login said-a said-b; exit $code",
                    link_.space("a"), launch::Link::address("a")));
  }

  /// Processes of a host whose first word after the program is `word`, but the one that serves.
  std::vector<pid_t> processes(const std::string& host, const std::string& word) const {
    std::vector<pid_t> out;
    const auto all = launch::run_process(
        {"/bin/sh", "-c", "PATH=$PATH:/sbin:/usr/sbin; ip netns pids " + link_.space(host)});
    for (const auto& line : split(all.out, '\n')) {
      int64_t pid = 0;
      if (!parse_number(trim(line), pid)) continue;
      std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
      const std::string text(std::istreambuf_iterator<char>(file), {});
      const auto words = split(text, '\0');
      const bool serves = text.find("--serve-only") != std::string::npos;
      if (words.size() > 1 && words[1] == word && !serves) out.push_back(static_cast<pid_t>(pid));
    }
    return out;
  }

  /// Lets something fail. Returns what, in words.
  std::string disturb(std::mt19937_64& random) {
    const auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const auto pause = [](double seconds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    };
    const std::string host = draw(0, 1) == 0 ? "a" : "b";
    const auto one_of = [&](const std::string& word) -> pid_t {
      const auto all = processes(host, word);
      return all.empty() ? 0 : all[static_cast<size_t>(draw(0, std::ssize(all) - 1))];
    };
    const double seconds = 0.5 * static_cast<double>(draw(1, 14));
    switch (draw(0, 5)) {
      case 0: {
        if (const auto pid = one_of("train")) ::kill(pid, SIGKILL);
        return "a rank of host " + host + " is killed";
      }
      case 1: {
        if (const auto pid = one_of("launch")) ::kill(pid, SIGKILL);
        return "host " + host + " is lost";
      }
      case 2: {
        const auto pid = one_of("train");
        if (pid != 0) ::kill(pid, SIGSTOP);
        pause(seconds);
        if (pid != 0) ::kill(pid, SIGCONT);
        return fmt::format("a rank of host {} stops for {} s", host, seconds);
      }
      case 3:
        link_.cut();
        pause(seconds);
        link_.set_loss(0);
        return fmt::format("the link is cut for {} s", seconds);
      case 4:
        link_.set_bandwidth(1e5);
        pause(seconds);
        link_.set_bandwidth(0);
        return fmt::format("the link is slow for {} s", seconds);
      default:
        if (!has_disk_) return "no disk to fill";
        launch::run_process({"/bin/sh", "-c",
                             fmt::format("head -c 8000000 /dev/zero > {} 2> /dev/null",
                                         (folder_ / "disk/full").string())});
        pause(seconds);
        fs::remove(folder_ / "disk/full");
        return fmt::format("the disk is full for {} s", seconds);
    }
  }

  static constexpr std::chrono::milliseconds kDelay{5};
  launch::Link link_;
  bool has_disk_ = false;
};

TEST_F(HostSoak, WhateverFailsTheRunEndsWithItsBits) {
  const auto seed = soak_number("CONVOY_SEED", 1);
  const auto seconds = static_cast<double>(soak_number("CONVOY_SOAK_SECONDS", 30));
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  const auto began = std::chrono::steady_clock::now();
  std::map<std::string, std::string> calm;
  const std::vector<std::string> layouts{"", "--zero 3 --shard_ranks host "};
  for (int64_t run = 0; run == 0 || seconds_since(began) < seconds; ++run) {
    const auto& layout = layouts[static_cast<size_t>(run) % layouts.size()];
    if (!calm.contains(layout)) {
      ASSERT_EQ(train_on_both(train("calm", layout + "--overwrite_output_dir")), 0) << output_;
      calm[layout] = model_of("calm");
    }
    std::atomic<bool> is_over = false;
    std::string events;
    std::thread other([&] {
      const auto most = std::uniform_int_distribution<int>(1, 4)(random);
      for (int i = 0; i < most && !is_over; ++i) {
        const auto wait = std::uniform_real_distribution<double>(1, 6)(random);
        const auto since = std::chrono::steady_clock::now();
        while (!is_over && seconds_since(since) < wait) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        if (!is_over) events += "  " + disturb(random) + "\n";
      }
    });
    fs::remove_all(folder_ / "disk/out");
    const int code = train_on_both(train("disk/out", layout + "--memory_copy_steps 5"));
    is_over = true;
    other.join();
    SCOPED_TRACE(fmt::format("seed {}, run {} {}:\n{}", seed, run, layout, events));
    ASSERT_NE(code, 124) << "it hangs: " << output_;
    ASSERT_EQ(code, 0) << output_;
    ASSERT_TRUE(model_of("disk/out") == calm.at(layout)) << "other bits: " << output_;
    fmt::print("run {}{}\n{}", run, layout.empty() ? "" : " " + layout, events);
  }
}

}  // namespace
}  // namespace convoy
