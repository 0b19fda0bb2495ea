/* Tunes a baseline as an expert would on a processor that is not Intel's: MKL then takes its AVX-512 or AVX2 kernels.
   gcc -shared -fPIC -o mkl_any_cpu.so mkl_any_cpu.c && LD_PRELOAD=$PWD/mkl_any_cpu.so python torch_causal.py single 1 */
int mkl_serv_intel_cpu_true(void) {
  return 1;
}
