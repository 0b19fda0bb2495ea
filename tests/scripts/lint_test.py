#!/usr/bin/env python3
"""What scripts/lint.py says of single lines: our own words and the other senses of them."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import arrows  # noqa: E402
import knobs  # noqa: E402
import lint  # noqa: E402


def said(line, path="convoy/base/any.h"):
    return [own for own, _ in lint.own_words(path, line)]


class Arrows(unittest.TestCase):
    TEXT = """convoy_component(base LINK Fmt::fmt)
convoy_component(parallel COMPONENTS base WITH_TORCH torch run)
convoy_component(comm TORCH COMPONENTS parallel)
convoy_torch_part(parallel COMPONENTS comm)
"""

    def test_folders_with_torch_are_a_component_of_their_own(self):
        components = arrows.Components(self.TEXT)
        for path, component in (("convoy/parallel/layout.h", "parallel"), ("convoy/parallel/zero/with_gathers.cpp", "parallel"),
                                ("convoy/parallel/zero/torch/gathers.h", "parallel_torch"), ("convoy/parallel/run/pass.h", "parallel_torch"),
                                ("convoy/parallel/run_plan/run_plan.h", "parallel"), ("convoy/convoy.h", None), ("cli/main.cpp", None)):
            self.assertEqual(components.of(path), component, path)

    def test_refuses_includes_that_a_component_may_not_have(self):
        components = arrows.Components(self.TEXT)
        for component, target in (("parallel", "convoy/parallel/run/pass.h"), ("parallel", "convoy/comm/group.h"), ("base", "convoy/comm/group.h"),
                                  ("parallel_torch", "group.h")):
            self.assertIsNotNone(components.check_line(component, f'#include "{target}"'), target)
        for component, target in (("parallel_torch", "convoy/comm/group.h"), ("parallel_torch", "convoy/parallel/layout.h"),
                                  ("parallel", "convoy/base/error.h")):
            self.assertIsNone(components.check_line(component, f'#include "{target}"'), target)
        self.assertIsNone(components.check_line("comm", "#include <ATen/ATen.h>"))
        self.assertIsNotNone(components.check_line("parallel", "#include <ATen/ATen.h>"))

    def two_ways(self, *includes):
        sources = {}
        for path, target in includes:
            sources[path] = sources.get(path, "") + f'#include "{target}"\n'
        return list(arrows.two_ways(sources))

    def test_pages_name_places_that_are_there(self):
        for text in ("`convoy/schedule`", "`cli/there.cpp`", "`tests/none_test.cpp`, `convoy/base`"):
            self.assertEqual(len(list(lint.lost_places(text))), 1, text)
        for text in ("`convoy/base`", "`convoy/base/error`", "`convoy/optim/NAME.cpp`", "`tests/cli/`", "`docs/x.md`", "convoy/schedule"):
            self.assertEqual(list(lint.lost_places(text)), [], text)

    def test_no_two_headers_give_types_one_name(self):
        twice = {"a.h": "struct Piece {\n  int a;\n};\n", "b.h": "class Piece final : public Base {\n};\n"}
        self.assertEqual(len(list(lint.types_declared_twice(twice))), 1)
        for other in ("class Piece;\n", "struct Piece::Part {\n};\n", "struct Pieces {\n};\n", "  struct Piece {\n  };\n"):
            self.assertEqual(list(lint.types_declared_twice(twice | {"b.h": other})), [], other)
        self.assertEqual(list(lint.types_declared_twice(twice | {"b.h": "", "b.cpp": twice["b.h"]})), [])

    def test_folders_of_a_component_include_each_other_one_way_only(self):
        a, b = ("convoy/nn/a/a.h", "convoy/nn/b/b.h"), ("convoy/nn/b/b.cpp", "convoy/nn/a/a.h")
        self.assertEqual(len(self.two_ways(a, b)), 1)
        self.assertEqual(self.two_ways(a), [])
        self.assertEqual(len(self.two_ways(("cli/a/a.cpp", "cli/b/b.h"), ("cli/b/b.cpp", "cli/a/a.h"))), 1)
        # Components are one way already; and a registry's source names what lies inside its folder.
        self.assertEqual(self.two_ways(("convoy/nn/a/a.h", "convoy/comm/b/b.h"), ("convoy/comm/b/b.h", "convoy/nn/a/a.h")), [])
        self.assertEqual(self.two_ways(("convoy/comm/registry.cpp", "convoy/comm/shm/shm.h"), ("convoy/comm/shm/shm.h", "convoy/comm/engine.h")), [])
        self.assertEqual(len(self.two_ways(("convoy/comm/engine.h", "convoy/comm/shm/shm.h"), ("convoy/comm/shm/shm.h", "convoy/comm/engine.h"))), 1)


class Words(unittest.TestCase):
    def test_refuses_our_own(self):
        for path, line, own in (
                ("convoy/parallel/pipeline/pipeline.h", "for (const auto& row : rows_)", "row"),
                ("convoy/parallel/program/any.h", "std::vector<Action> tasks;", "tasks"),
                ("convoy/parallel/pipeline/any.h", "std::vector<Cell> order;", "Cell"),
                ("README.md", "convoy train --output_dir runs/sliced", "sliced"),
                ("convoy/train/any.h", "copies of the state", "copies of the state"),
                ("convoy/data/any.h", "an empty cell", "cell"),
                ("convoy/comm/any.h", "the ranks exchange sizes", "exchange"),
                ("convoy/comm/any.h", "ranks that talk", "talk"),
                ("convoy/parallel/any.h", "std::deque<Flight> flights_;", "Flight"),
                ("benchmarks/any.sh", "one run of the peer", "peer"),
                ("cmake/any.cmake", "# convoy_test(ROOM)", "ROOM")):
            self.assertEqual(said(line, path)[:1], [own], line)

    def test_knows_the_other_senses(self):
        for path, line in (
                ("convoy/comm/any.h", "std::exchange(handle_, {}).wait(); seen.compare_exchange_weak(a, b)"),
                ("convoy/train/any.h", "class CircleTask : public tasks::Task {"),
                ("convoy/nn/any.cpp", "ids.slice(0, 1); array->Slice(begin, end)"),
                ("convoy/report/any.h", "one cell for each column"),
                ("convoy/parallel/pipeline/csv.cpp", "const auto& cell = line[c];"),
                ("convoy/bench/save.h", "int64_t rounds = 3;"),
                ("convoy/parallel/program/any.h", "int peer = -1;"),
                ("convoy/parallel/any.h", "std::deque<InFlight> in_flight_;  // in flight"),
                ("docs/data.md", "the flights, one sequence per aircraft"),
                ("convoy/base/any.h", "what has no room in memory")):
            self.assertEqual(said(line, path), [], line)

    def test_another_sense_frees_itself_only(self):
        line = "std::exchange(a, b);  // the ranks exchange sizes"
        self.assertEqual(said(line), ["exchange"])


class HostWaits(unittest.TestCase):
    def test_refuses_the_raw_calls_where_tensors_may_be_a_gpus(self):
        for line in ("const auto host = ids.cpu();", "auto known = tokens.to(at::kCPU, at::kLong);", "ids.to(torch::kCPU)",
                     "if (count.item<double>() == 0) return;", "x.item().toDouble();", "  host.copy_(memory);",
                     "memory.copy_(host);", "at::tensor(rows, at::kLong).to(table.device());",
                     "const auto places = (row == least).nonzero().squeeze(1);", "columns.masked_select(exist)",
                     "std::get<0>(at::_unique2(ids))", "at::nonzero(mask);", "if (a.equal(b)) return;", "at::equal(a, b)",
                     "at::repeat_interleave(counts)", "at::allclose(a, b)"):
            for component in ("parallel", "nn", "train", "tasks/session", "checkpoint", "planner"):
                self.assertIsNotNone(lint.host_wait(f"convoy/{component}/any.cpp", line), line)
                self.assertIsNone(lint.host_wait(f"convoy/{component}/any.cpp", line + "  // on the host"), line)
            self.assertIsNone(lint.host_wait("convoy/report/any.cpp", line), line)

    def test_refuses_copies_of_those_who_take_results(self):
        for line in ("best.narrow(0, filled, rows).copy_(values);", "    .copy_(from);", "piece->copy_(x);"):
            for component in ("train", "tasks/session", "checkpoint", "planner"):
                self.assertIsNotNone(lint.host_wait(f"convoy/{component}/any.cpp", line), line)
                self.assertIsNone(lint.host_wait(f"convoy/{component}/any.cpp", line + "  // on the host"), line)
            self.assertIsNone(lint.host_wait("convoy/nn/any.cpp", line), line)

    def test_lets_the_one_way_and_others_stand(self):
        for line in ("const auto host = comm::download(ids);", "comm::item<double>(count)", "config.item().cardinality",
                     "host.copy_(tensor, /*non_blocking=*/true);", "memory.copy_(host, /*non_blocking=*/true);",
                     "// host.copy_(memory);", "unique_folder(name)", "std::unique(a, b);",
                     "at::tensor(draws, at::kInt).to(at::kFloat)", "ghost.copy_(x)"):
            self.assertIsNone(lint.host_wait("convoy/parallel/any.cpp", line), line)
        self.assertIsNone(lint.host_wait("convoy/comm/device.cpp", "return tensor.cpu();"))


class DocBlocks(unittest.TestCase):
    def found(self, *lines):
        return list(lint.riddles(lines))

    def test_refuses_an_opening_without_a_noun(self):
        for word in ("What", "Of", "The same", "Those", "That", "So"):
            self.assertEqual(self.found("", f"  /// {word} many rows."), [(2, word)])
            self.assertEqual(self.found(f"  int rows;  ///< {word} of a step"), [(1, word)])
        for word in ("what", "the same", "those"):
            self.assertEqual(self.found("{", f"  int rows;  ///< {word} of a step"), [(2, word)])
        self.assertEqual(self.found("int a;  ///< rows", "int b;  ///< what is left", "/// Those of a step."),
                         [(2, "what"), (3, "Those")])

    def test_lets_nouns_and_verbs_stand(self):
        for line in ("/// Number of rows.", "/// Returns what is left.", "/// Whether rows are left.", "/// Ofs", "/// Somebody",
                     "int rows;  ///< of a step", "int rows;  ///< that are left", "int rows;  ///< so far", "// What a reader asks"):
            self.assertEqual(self.found(line), [], line)

    def test_looks_at_the_first_line_of_a_block(self):
        self.assertEqual(self.found("/// Number of rows.", "/// Those of padding count.", "///", "/// What is left is 0."), [])
        self.assertEqual(self.found("int rows;  ///< of all ranks,", "           ///< those of padding too"), [])


class Map(unittest.TestCase):
    def test_names_every_folder(self):
        page = "## The map\n\nnn   layers: linear layers\n\n### Words\n\nlosses\n"
        sources = ["convoy/convoy.h", "convoy/nn/block.h", "convoy/nn/layers/norm.cpp", "convoy/nn/losses/bpr.h", "cli/main.cpp"]
        self.assertEqual(list(lint.folders_without_line(page, sources)), ["convoy/nn/losses"])


class TestNames(unittest.TestCase):
    def test_begin_with_their_subject(self):
        for name in ("TheDiskIsRead", "AnotherModelIsRefused", "WhatStaysIsKept", "OfRowsSomeAreRead", "ThoseOfAStepEnd"):
            for kind in ("TEST(Any, ", "TEST_F(Any,\n       ", "TEST_P(Any, "):
                self.assertEqual(list(lint.tests_without_subject(f"\n{kind}{name}) {{")), [(2, name)])

    def test_may_begin_with_any_noun(self):
        for name in ("TheoremsHold", "OffloadIsRefused", "ThenRanksEnd", "SoftmaxIsOne", "WhateverFitsRuns"):
            self.assertEqual(list(lint.tests_without_subject(f"TEST(Any, {name}) {{")), [], name)


class Registries(unittest.TestCase):
    def found(self, text, path="convoy/train/any.cpp"):
        return [number for number, _ in lint.listed_names(path, text, lint.read_registries())]

    def test_refuses_lists_outside_the_table(self):
        for text in ('.choice({"auto", "shm", "gloo"})', '"one of gpipe, 1f1b"', '"gpipe, "\n    "1f1b"',
                     '.only_with("pipeline_schedule", {"interleaved"})', '{"train", "eval"}', "// gpt2 and llama"):
            self.assertEqual(self.found(text), [1], text)

    def test_lets_single_names_and_sentences_stand(self):
        for text in ('engine == "nccl"', '"try backend = gloo"', '"shm+gloo"', '"rows of data, predict"',
                     '"a layer of gpt2"', '#include "convoy/comm/shm/shm_engine.h"'):
            self.assertEqual(self.found(text), [], text)


class TaskWords(unittest.TestCase):
    def test_the_trainer_the_scheduler_and_the_program_name_no_task(self):
        self.assertEqual(set(lint.FREE_OF_TASKS), {"convoy/train/", "convoy/parallel/", "cli/"})
        for word in ("a session of items", "top_k", "the perplexity", "ranking", "classifier"):
            self.assertTrue(lint.TASK_WORD.search(word), word)
        for word in ("the ranks", "stop_kind", "a length"):
            self.assertIsNone(lint.TASK_WORD.search(word), word)


class Families(unittest.TestCase):
    def found(self, line, path="convoy/planner/search/any.cpp"):
        registries = lint.read_registries()
        return lint.named_families(path, line, registries["families"][3] | registries["session bodies"][3])

    def test_plans_and_profiles_name_none(self):
        for line, family in (('if (family == "llama")', "llama"), ("// as GPT-2 has it", "GPT-2"), ("class T5;", "T5"),
                             ('#include "convoy/models/gpt2/gpt2.h"', "convoy/models/"), ("hstu_block", "hstu")):
            self.assertEqual(self.found(line), family, line)
        for path in ("convoy/planner/cost/any.h", "convoy/parallel/program/any.h"):
            self.assertEqual(self.found("a llama", path), "llama")

    def test_lets_other_words_and_places_stand(self):
        for line in ("int t512 = 0;", "a spent bertha", "dispatch(ptx)"):
            self.assertIsNone(self.found(line), line)
        self.assertIsNone(self.found("llama", "convoy/tasks/any.cpp"))


class Members(unittest.TestCase):
    HEADER = """struct GatherOptions {
  int64_t prefetch = 1;  ///< ahead

  int times() const { return 2; }
};
struct Parallelism {
  int64_t zero = 0;
  GatherOptions gathers = {};

  int64_t zeros() const { return zero; }
};
"""

    def test_counts_sources_that_name_one(self):
        found = knobs.sources_of_members(self.HEADER, {
            knobs.PARALLELISM: self.HEADER, "a.cpp": "use(p.zero);", "b.cpp": "q->zero = 1;", "c.cpp": "option<&Parallelism::zero>",
            "d.cpp": "x.gathers.prefetch", "e.cpp": "&GatherOptions::prefetch", "f.cpp": 'fail("p.zero");  // of p.zero',
            "g.cpp": "p.zero(); zero = p.zeros; prefetch = gathers;"})
        self.assertEqual(found, {"zero": ["a.cpp", "b.cpp", "c.cpp"], "gathers.prefetch": ["d.cpp", "e.cpp"]})

    def test_refuses_a_fourth_file(self):
        files = {name: "use(p.zero);" for name in ("a.cpp", "b.cpp", "c.cpp")} | {knobs.PARALLELISM: self.HEADER}
        self.assertGreater(len(knobs.sources_of_members(self.HEADER, files)["zero"]), knobs.MAX_MEMBER_SOURCES)
        del files["c.cpp"]
        self.assertLessEqual(len(knobs.sources_of_members(self.HEADER, files)["zero"]), knobs.MAX_MEMBER_SOURCES)

    def test_knows_the_members_there_are(self):
        found = knobs.members_of((lint.ROOT / knobs.PARALLELISM).read_text())
        for member in ("ranks.pipeline", "zero", "gathers.prefetch", "offload.optimizer", "offload.parameters", "pipeline.csv"):
            self.assertIn(member, found)
        self.assertLessEqual(set(knobs.MEMBER_SOURCES), set(found))

    def test_finds_types_that_hold_two_knobs(self):
        found = list(knobs.spreads_of({
            "a.h": "struct Batch {\n  int64_t rows = 1, micro_batches = 1;\n};\n",
            "b.cpp": "class Pieces {\n  int64_t rows_;\n  bool recompute_ = false;\n};\n",
            "c.h": "struct One {\n  int64_t rows = 1;  ///< of micro_batches;\n  Stages stages;\n  int64_t zero() const;\n};\n"}))
        self.assertEqual(found, [("a.h", "Batch", ["micro-batches", "rows"]), ("b.cpp", "Pieces", ["rows", "recomputation"])])

    def test_knows_the_types_that_hold_two_knobs(self):
        ours = {str(path): (lint.ROOT / path).read_text() for path in lint.list_files()
                if path.suffix in lint.CPP and path.parts[0] in ("convoy", "cli")}
        self.assertEqual({kind for _, kind, _ in knobs.spreads_of(ours)}, knobs.SPREADS)

    def test_no_ceiling_is_higher_than_it_must_be(self):
        ours = {str(path): (lint.ROOT / path).read_text() for path in lint.list_files()
                if path.suffix in lint.CPP and path.parts[0] in ("convoy", "cli")}
        found = knobs.sources_of_members(ours[knobs.PARALLELISM], ours)
        for member, most in knobs.MEMBER_SOURCES.items():
            self.assertEqual(len(found[member]), most, member)


class JsonNumbers(unittest.TestCase):
    def test_refuses_json_s_own_conversions(self):
        for line in ("top_k = json.get<int64_t>();", 'json.at("seed").get_to(seed);', "x = v.get<std::vector<double>>();",
                     "return json.get<double>();", "n = json.get<size_t>();", "json.get<std::vector<int64_t>>()",
                     "json.get<std::vector<std::pair<int64_t, int64_t>>>()", "found.get<std::map<std::string, double>>();",
                     'const int first = row.at("first_rank");', 'double seconds{json.at("seconds")};',
                     'out.update_seconds = json.at("update_seconds");', 'message.value("signal", 15)',
                     'json.value("spread", 0.0)', 'message.value("node_rank", -1)'):
            self.assertIsNotNone(lint.JSON_NUMBER.search(line), line)
        for line in ("whole_number<int64_t>(json)", "json.get<std::string>()", "json.get<bool>()",
                     "json.get_ref<const std::string&>()", "json.get<std::vector<std::string>>()", "value_from<int>(json)",
                     'read_value(json.at("seed"), seed);', 'value_at(message, "signal", 15)', 'message.value("address", "")',
                     'const std::string type = message.at("type");', "json.get<Printed>()"):
            self.assertIsNone(lint.JSON_NUMBER.search(line), line)

    def test_covers_every_folder_that_reads_foreign_files(self):
        for folder in ("launch", "train", "checkpoint", "tasks"):
            self.assertTrue(f"convoy/{folder}/any.cpp".startswith(lint.FOREIGN_NUMBERS))
        self.assertTrue("cli/any.cpp".startswith(lint.FOREIGN_NUMBERS))


if __name__ == "__main__":
    unittest.main()
