#include "convoy/program.h"

int main(int argc, char** argv) {
  convoy::run_program(argc, argv);
}
