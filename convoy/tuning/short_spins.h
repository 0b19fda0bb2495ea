#pragma once

/// Whether a program that links convoy::tuning may start itself again, before any library is set
/// up, with OpenMP's threads told to spin for some microseconds only. A program that does not
/// define it may.
extern "C" [[gnu::weak]] bool convoy_may_start_again(int argc, char** argv);
