// The lab's probe: cudaMalloc step by step until it is refused, through the CUDA runtime.
//
//   nvcc -o /tmp/probe nvcc_probe.cu && /tmp/probe CHUNK_MIB CAP_MIB [HOLD_SECONDS [until-stdin-closes]]
//
// Beside the lab's own line it prints the JSON line that driver_probe.py prints, and it stops at a cap, so that an
// unlimited pod does not take the whole card. Exit status 0: measured, 3: could not be measured, 2: wrong argument.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <string>
#include <unistd.h>

static const size_t MIB = (size_t)1024 * 1024;

static long number(const char *text) {
  char *end = nullptr;
  long value = std::strtol(text, &end, 10);
  return (end == text || *end != '\0') ? -1 : value;
}

// Keep the memory for so long, or, if asked, until stdin is closed.
static void keep(long seconds, bool until_stdin_closes) {
  time_t end = std::time(nullptr) + seconds;
  char buffer[4096];
  for (time_t left = seconds; left > 0; left = end - std::time(nullptr)) {
    if (!until_stdin_closes) {
      sleep((unsigned)left);
      continue;
    }
    struct pollfd in = {0, POLLIN, 0};
    if (poll(&in, 1, (int)(left < 3600 ? left * 1000 : 3600000)) > 0 && read(0, buffer, sizeof buffer) <= 0) return;
  }
}

int main(int argc, char **argv) {
  long chunk = argc > 1 ? number(argv[1]) : 256;
  long cap = argc > 2 ? number(argv[2]) : -1;
  long hold = argc > 3 ? number(argv[3]) : 0;
  bool until_stdin_closes = argc > 4 && std::strcmp(argv[4], "until-stdin-closes") == 0;
  if (chunk < 1 || cap < 1 || hold < 0 || (argc > 4 && !until_stdin_closes) || argc > 5) {
    std::fprintf(stderr, "usage: probe CHUNK_MIB CAP_MIB [HOLD_SECONDS [until-stdin-closes]]\n");
    return 2;
  }
  size_t free_bytes = 0, total_bytes = 0;
  cudaError_t e = cudaMemGetInfo(&free_bytes, &total_bytes);  // makes the context
  if (e != cudaSuccess) {
    std::string words = cudaGetErrorString(e);
    std::replace(words.begin(), words.end(), '"', '\'');
    std::printf("{\"measured\": false, \"route\": \"runtime\", \"refused\": false, \"allocated_mib\": 0, \"rc\": %d, "
                "\"rc_name\": \"%s\", \"error\": \"%s\", \"free_before_mib\": null, \"total_mib\": null, "
                "\"chunk_mib\": %ld, \"cap_mib\": %ld}\n",
                (int)e, cudaGetErrorName(e), words.c_str(), chunk, cap);
    return 3;
  }
  long allocated = 0;
  void *p = nullptr;
  while (allocated + chunk <= cap) {
    e = cudaMalloc(&p, (size_t)chunk * MIB);
    if (e != cudaSuccess) {
      std::printf("cudaMalloc refused after %ld MiB allocated: %s\n", allocated, cudaGetErrorString(e));
      break;
    }
    allocated += chunk;
  }
  std::printf("{\"measured\": true, \"route\": \"runtime\", \"refused\": %s, \"allocated_mib\": %ld, \"rc\": %d, "
              "\"rc_name\": %s%s%s, \"error\": null, \"free_before_mib\": %zu, \"total_mib\": %zu, "
              "\"chunk_mib\": %ld, \"cap_mib\": %ld}\n",
              e == cudaSuccess ? "false" : "true", allocated, (int)e, e == cudaSuccess ? "" : "\"",
              e == cudaSuccess ? "null" : cudaGetErrorName(e), e == cudaSuccess ? "" : "\"", free_bytes / MIB,
              total_bytes / MIB, chunk, cap);
  std::fflush(stdout);
  keep(hold, until_stdin_closes);
  return 0;
}
