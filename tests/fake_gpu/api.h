#pragma once

#include <cstdint>

// What a test program that opens the library asks of it, by dlsym.
extern "C" {

/// How often the program misused the device, and how the first time; until reset.
long fake_gpu_num_misuses();
const char* fake_gpu_first_misuse();
/// Forgets misuses and counters.
void fake_gpu_reset();

/// "mode=count", "memory=64M", "ignore=SITE"; adds to FAKE_GPU_OPTIONS. Memory as of the next
/// device.
void fake_gpu_set(const char* options);
/// No site is ignored any more.
void fake_gpu_heed_all();

/// For programs without convoy/base/activity.
void fake_gpu_label(int64_t step, const char* text);

/// The counters, in the order of convoy::fake_gpu::Counts: 10 numbers.
void fake_gpu_counts(int64_t* numbers);
}
