#include <cstdlib>
#include <map>

#include "tests/cli/faults_testing.h"

// Every fault in every phase: ./dev test --all. With CONVOY_UPDATE_DOCS each test writes its
// section of docs/faults_matrix.md.
namespace convoy {
namespace {

struct Column {
  const char* title;
  const char* backend = "shm";
  int ranks = 2;
  int zero = 0;
  bool offload = false;
  int stages = 1;
  int tensor = 1;
  bool tokens = false;
  int rank = -1;  ///< that fails; the last one
  int context = 1;
};

class FaultsMatrix : public Faults {
 protected:
  using Names = std::vector<std::string>;

  /// Tries all; the last rank fails. `can` says which cells there are.
  void try_all(
      const std::string& title, const Names& kinds, const Names& phases,
      const std::vector<Column>& columns,
      const std::function<bool(const Cell&)>& can = [](const Cell&) { return true; }) {
    std::string table = "| fault | phase |", rule = "|---|---|";
    for (const auto& column : columns) {
      table += fmt::format(" {} |", column.title);
      rule += "--:|";
    }
    table += " what the report says |\n" + rule + "---|\n";
    for (const auto& kind : kinds) {
      for (const auto& phase : phases) {
        std::string row;
        Names reasons;
        for (const auto& c : columns) {
          const int rank = c.rank < 0 ? c.ranks - 1 : c.rank;
          const Cell cell{kind,      phase,    c.backend, c.ranks,  rank,     c.zero,
                          c.offload, c.stages, c.tensor,  c.tokens, c.context};
          if (!can(cell)) {
            row += " - |";
            continue;
          }
          const auto end = try_cell(cell);
          row += fmt::format(" {:.1f} s |", end.seconds);
          if (reasons.empty()) reasons.push_back(end.reason);
        }
        if (!reasons.empty())
          table += fmt::format("| {} | {} |{} {} |\n", kind, phase, row, reasons[0]);
      }
    }
    if (std::getenv("CONVOY_UPDATE_DOCS")) write_section(title, table);
  }

  /// Lets a rank fail in step 4 of a run with copies in memory after each step. Returns the seconds
  /// until the run has ended with the bits of a calm one.
  double go_on_from_memory(const Cell& cell) {
    SCOPED_TRACE(cell.text());
    const auto calm = fmt::format("calm-zero-{}-{}", cell.zero, cell.stages);
    const auto launch = [&](const std::string& folder, const std::string& more) {
      auto words = command(cell, folder) + "--save_strategy no " + more;
      return words.replace(0, 6, "launch --max-restarts 1");
    };
    if (!fs::exists(folder_ / calm)) {
      EXPECT_EQ(run(launch(calm, "--memory_copy_steps 0")), 0) << output_;
    }
    fs::remove_all(folder_ / "out");
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(shell(fmt::format("CONVOY_FAULT={}@{}:{}:4 timeout 120 $convoy {}", cell.kind,
                                cell.rank, cell.phase, launch("out", "--memory_copy_steps 1"))),
              0)
        << output_;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    expect("start 2: going on from the memory copy of step 3");
    EXPECT_TRUE(model_of("out") == model_of(calm)) << output_;
    EXPECT_EQ(num_processes(), 0) << output_;
    return took.count();
  }

  /// Tries restarts from memory, and writes their section.
  void try_restarts(const Names& kinds, const Names& phases, const std::vector<Column>& columns,
                    const std::function<bool(const Cell&)>& can) {
    std::string table = "| fault | phase |", rule = "|---|---|";
    for (const auto& column : columns) {
      table += fmt::format(" {} |", column.title);
      rule += "--:|";
    }
    table += "\n" + rule + "\n";
    for (const auto& kind : kinds) {
      for (const auto& phase : phases) {
        std::string row;
        bool any = false;
        for (const auto& c : columns) {
          const Cell cell{kind, phase, c.backend, c.ranks, c.ranks - 1, c.zero, false, c.stages};
          const bool tries = can(cell);
          row += tries ? fmt::format(" {:.1f} s |", go_on_from_memory(cell)) : " - |";
          any = any || tries;
        }
        if (any) table += fmt::format("| {} | {} |{}\n", kind, phase, row);
      }
    }
    if (std::getenv("CONVOY_UPDATE_DOCS")) {
      write_section(
          "From memory",
          "Time until the whole run of six steps, of which the fourth failed, has ended "
          "with the bits of a calm\none: two starts of the ranks. It goes on from the copy "
          "of step 3.\n\n" +
              table);
    }
  }

 private:
  /// Behind a heading of the page; other sections stay.
  static void write_section(const std::string& title, const std::string& table) {
    const auto path = fs::path(CONVOY_SOURCE_DIR) / "docs/faults_matrix.md";
    std::string page = read_file(path);
    const auto heading = "## " + title + "\n";
    auto begin = page.find(heading);
    if (begin == std::string::npos) {
      page += "\n" + heading;
      begin = page.size() - heading.size();
    }
    auto end = page.find("\n## ", begin + 1);
    if (end == std::string::npos) end = page.size();
    write_file(path, page.substr(0, begin) + heading + "\n" + table + page.substr(end));
  }
};

const std::vector<std::string> kKinds{"sigkill", "sigstop", "exception", "exit",
                                      "oom",     "nan",     "slow",      "mismatch"};

TEST_F(FaultsMatrix, DISABLED_CoversRanks) {
  auto kinds = kKinds;
  kinds.emplace_back("nodata");
  try_all("Ranks that share out the data", kinds,
          {"start", "forward", "backward", "reduce", "evaluation", "saving"},
          {{.title = "shm, 2 ranks"},
           {.title = "shm, 4", .ranks = 4},
           {.title = "Gloo, 2", .backend = "gloo"},
           {.title = "Gloo, 4", .backend = "gloo", .ranks = 4}});
}

TEST_F(FaultsMatrix, DISABLED_CoversStages) {
  try_all("Stages of a pipeline", kKinds,
          {"forward", "backward", "backward_weight", "send", "receive", "reduce", "saving"},
          {{.title = "shm, 2 stages x 2 ranks", .ranks = 4, .stages = 2},
           {.title = "Gloo, 2 x 2", .backend = "gloo", .ranks = 4, .stages = 2}},
          // What a stage spoils of its weights or sends, others see first.
          [](const Cell& cell) {
            return cell.kind != "nan" || cell.phase.starts_with("backward") ||
                   cell.phase == "reduce";
          });
}

TEST_F(FaultsMatrix, DISABLED_CoversLayers) {
  try_all("Layers that tensor ranks share out", kKinds, {"layer", "layer_backward"},
          {{.title = "shm, 2 tensor ranks", .tensor = 2},
           {.title = "shm, 2 x 2 data", .ranks = 4, .tensor = 2},
           {.title = "Gloo, 2 tensor ranks", .backend = "gloo", .tensor = 2},
           {.title = "Gloo, 2 x 2 data", .backend = "gloo", .ranks = 4, .tensor = 2},
           {.title = "shm, 2 x 2 data x 2 stages, ZeRO 1",
            .ranks = 8,
            .zero = 1,
            .stages = 2,
            .tensor = 2,
            .rank = 3}});  // of the first stage, which has the layers
}

TEST_F(FaultsMatrix, DISABLED_CoversPositions) {
  try_all("Rows whose positions context ranks share out", kKinds, {"layer", "layer_backward"},
          {{.title = "shm, 2 context ranks", .context = 2},
           {.title = "shm, 2 x 2 data", .ranks = 4, .context = 2},
           {.title = "Gloo, 2 context ranks", .backend = "gloo", .context = 2},
           {.title = "shm, 2 x 2 tensor", .ranks = 4, .tensor = 2, .context = 2}});
}

TEST_F(FaultsMatrix, DISABLED_CoversRestartsFromMemory) {
  auto kinds = kKinds;
  kinds.pop_back();  // another collective is a bug, whose restart would meet it again
  try_restarts(kinds, {"forward", "backward", "reduce", "update", "evaluation", "copy", "copy_sum"},
               {{.title = "shm, 2 ranks"},
                {.title = "ZeRO 3, 2 ranks", .zero = 3},
                {.title = "2 stages x 2 ranks", .ranks = 4, .stages = 2}},
               // What processes that only copy cannot spoil, and what others see first.
               [](const Cell& cell) {
                 return cell.kind != "nan" || (cell.phase == "reduce" && cell.stages == 1);
               });
}

TEST_F(FaultsMatrix, DISABLED_CoversShards) {
  auto kinds = kKinds;
  kinds.pop_back();  // another collective: as without ZeRO
  try_all("Ranks that keep shards (ZeRO), shared memory, 2 ranks", kinds,
          {"forward", "backward", "reduce", "gather", "update", "offload", "saving"},
          {{.title = "2", .zero = 2},
           {.title = "2, offloaded", .zero = 2, .offload = true},
           {.title = "3", .zero = 3},
           {.title = "3, offloaded", .zero = 3, .offload = true}},
          // Weights that are shared out are everybody's: whose they were nobody can tell.
          [](const Cell& cell) {
            if (!cell.offload && cell.phase == "offload") return false;
            return cell.kind != "nan" || cell.phase == "backward" || cell.phase == "reduce";
          });
}

}  // namespace
}  // namespace convoy
