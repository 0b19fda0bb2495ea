#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "tests/fuzz/fuzz.h"

// Runs a fuzz target over its corpus and over mutations of it: the same ones every time.
//   replay CORPUS_FOLDER [SECONDS]
namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t bound) {
  return bound == 0 ? 0 : random() % bound;
}

std::string mutated(std::string text, const std::vector<std::string>& corpus, Random& random) {
  static const std::vector<std::string> kNasty{"9223372036854775807",
                                               "-9223372036854775809",
                                               "18446744073709551616",
                                               "1e999",
                                               "1e30",
                                               "0.5",
                                               "-1",
                                               "-0",
                                               "nan",
                                               "\"\"",
                                               "{}",
                                               "[]",
                                               "[[[[",
                                               "}}}}",
                                               "\\u0000",
                                               "\xff\xfe",
                                               std::string(8, '\0'),
                                               "true",
                                               "null"};
  for (size_t times = 1 + below(random, 4); times > 0; --times) {
    const size_t at = below(random, text.size() + 1);
    switch (below(random, 6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, below(random, 16));
        break;
      case 2:
        text.insert(at, kNasty[below(random, kNasty.size())]);
        break;
      case 3:
        text.insert(at, text.substr(below(random, text.size() + 1), below(random, 64)));
        break;
      case 4: {
        const auto& other = corpus[below(random, corpus.size())];
        text = text.substr(0, at) + other.substr(below(random, other.size() + 1));
        break;
      }
      default:
        text.resize(at);
    }
  }
  if (text.size() > 1 << 16) text.resize(1 << 16);
  return text;
}

std::string current;

/// Keeps the input at hand; returns where.
std::string keep_input() {
  const auto file = std::filesystem::temp_directory_path() / "convoy-fuzz-input";
  convoy::write_file(file, current);
  return file.string();
}

void on_crash(int signal) {
  std::signal(signal, SIG_DFL);
  fmt::print(stderr, "signal {} from the input kept in {}\n", signal, keep_input());
  std::raise(signal);
}

void run(const std::string& text) {
  current = text;
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\nfrom the input kept in {}\n", error.what(), keep_input());
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS}) std::signal(signal, on_crash);
  std::vector<std::string> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    corpus.push_back(convoy::read_file(entry.path()));
  }
  std::sort(corpus.begin(), corpus.end());  // the folder's order is nobody's promise
  if (corpus.empty()) {
    fmt::print(stderr, "{} holds no inputs\n", argv[1]);
    return 1;
  }
  for (const auto& text : corpus) run(text);
  Random random(1);
  const std::chrono::duration<double> limit(argc > 2 ? std::stod(argv[2]) : 2.0);
  const auto start = std::chrono::steady_clock::now();
  size_t runs = corpus.size();
  for (; std::chrono::steady_clock::now() - start < limit; ++runs) {
    run(mutated(corpus[below(random, corpus.size())], corpus, random));
  }
  fmt::print("{} inputs\n", runs);
}
