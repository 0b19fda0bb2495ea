// Page faults of large temporaries are a large part of training on CPU; jemalloc keeps the pages.

/// jemalloc reads this at start: freed pages are kept, since the next step asks for the same sizes.
/// Handing them back and faulting them in again took a quarter of a step. As they are kept, any
/// part of them must do for what comes next: jemalloc by itself cuts no block from free memory of
/// more than 64 times its size, which it expects to be handed back soon, but maps more and more.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "dirty_decay_ms:-1,muzzy_decay_ms:-1,lg_extent_max_active_fit:40";

/// Name by which the linker takes this file into a program.
extern const char convoy_keeps_pages = 1;
}
