#pragma once

#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// Adds a command of one's own, before run_program(): `work` gets the words that were typed behind
/// its name, and returns the exit code.
void add_command(const std::string& name, const std::string& help,
                 std::function<int(const std::vector<std::string>& words)> work);

/// Runs the whole program convoy, for a main() that adds something to it first, such as a family of
/// models. Link convoy::program.
[[noreturn]] void run_program(int argc, char** argv);

}  // namespace convoy
