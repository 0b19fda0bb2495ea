// Page faults of large temporaries are a large part of training on CPU; jemalloc keeps the pages.

/// Settings that jemalloc reads at start. Freed pages are kept, since the next step asks for the
/// same sizes; returning them and faulting them in again took a quarter of a step. Any part of a
/// kept block may serve the next allocation: by default jemalloc cuts no block from free memory of
/// more than 64 times its size, which it expects to return soon, but maps more and more.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "dirty_decay_ms:-1,muzzy_decay_ms:-1,lg_extent_max_active_fit:40";

/// Name by which the linker takes this file into a program.
extern const char convoy_keeps_pages = 1;
}
