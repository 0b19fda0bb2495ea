/// jemalloc reads this at start: freed pages are kept, since the next step asks for the same sizes.
/// Handing them back and faulting them in again took a quarter of a step.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "dirty_decay_ms:-1,muzzy_decay_ms:-1";
}
