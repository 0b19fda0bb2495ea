// Times the collectives of an MPI library the way `convoy bench collectives` times its own: tensors
// in ordinary memory, calls one after the other, the median of five runs. Prints "collective bytes
// microseconds" lines.
//   mpicxx -O2 -o mpi_collectives benchmarks/baselines/mpi_collectives.cpp && mpirun -n 2
//   ./mpi_collectives
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

double measure(const std::function<void()>& call, double seconds) {
  call();
  double start = MPI_Wtime();
  for (int i = 0; i < 3; ++i) call();
  long number =
      std::clamp<long>(static_cast<long>(seconds / 5 / ((MPI_Wtime() - start) / 3)), 1, 100000);
  MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  std::vector<double> runs;
  for (int run = 0; run < 5; ++run) {
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (long i = 0; i < number; ++i) call();
    runs.push_back((MPI_Wtime() - start) / static_cast<double>(number));
  }
  std::sort(runs.begin(), runs.end());
  double slowest = 0;
  MPI_Allreduce(&runs[2], &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest * 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.3;
  for (long bytes : {1L << 10, 16L << 10, 256L << 10, 1L << 20, 4L << 20, 16L << 20, 64L << 20}) {
    const int count = static_cast<int>(bytes / 4), part = count / size;
    std::vector<float> whole(static_cast<size_t>(count)), own(static_cast<size_t>(part));
    const std::pair<const char*, std::function<void()>> calls[] = {
        {"all_reduce",
         [&] {
           MPI_Allreduce(MPI_IN_PLACE, whole.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
         }},
        {"reduce_scatter",
         [&] {
           MPI_Reduce_scatter_block(whole.data(), own.data(), part, MPI_FLOAT, MPI_SUM,
                                    MPI_COMM_WORLD);
         }},
        {"all_gather",
         [&] {
           MPI_Allgather(own.data(), part, MPI_FLOAT, whole.data(), part, MPI_FLOAT,
                         MPI_COMM_WORLD);
         }},
        {"broadcast", [&] { MPI_Bcast(whole.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD); }}};
    for (const auto& [name, call] : calls) {
      const double time = measure(call, seconds);
      if (rank == 0) std::printf("%s %ld %.3f\n", name, bytes, time);
    }
  }
  MPI_Finalize();
}
