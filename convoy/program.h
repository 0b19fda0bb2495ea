#pragma once

namespace convoy {

/// The whole program convoy, for a main() that adds something to it first, such as a family of
/// models. Link convoy::program.
[[noreturn]] void run_program(int argc, char** argv);

}  // namespace convoy
