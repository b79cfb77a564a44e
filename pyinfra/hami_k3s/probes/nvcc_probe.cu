// The lab's probe: cudaMalloc step by step until it is refused, through the CUDA runtime.
//
//   nvcc -o /tmp/probe nvcc_probe.cu && /tmp/probe CHUNK_MIB CAP_MIB [HOLD_SECONDS [until-stdin-closes] [route=NAME]]
//
// Beside the lab's own line it prints the JSON line that driver_probe.py prints, and it stops at a cap, so that an
// unlimited pod does not take the whole card. NAME is one of driver_probe.py's routes, in a process of its own each.
// Exit status 0: measured, 3: could not be measured, 2: wrong argument.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <poll.h>
#include <string>
#include <unistd.h>

static const size_t MIB = (size_t)1024 * 1024;

// One step of each route: allocates `size` bytes and never gives them back.
static cudaError_t take_sync(size_t size) {
  void *p = nullptr;
  return cudaMalloc(&p, size);
}

static cudaError_t take_pitch(size_t size) {
  void *p = nullptr;
  size_t pitch = 0;
  return cudaMallocPitch(&p, &pitch, MIB, size / MIB);  // rows of 1 MiB are a multiple of every alignment
}

static cudaError_t take_async(size_t size) {
  void *p = nullptr;
  cudaError_t e = cudaMallocAsync(&p, size, 0);
  return e != cudaSuccess ? e : cudaStreamSynchronize(0);
}

static cudaError_t take_pool(size_t size) {
  void *p = nullptr;
  cudaMemPool_t pool;
  cudaError_t e = cudaDeviceGetDefaultMemPool(&pool, 0);
  if (e == cudaSuccess) e = cudaMallocFromPoolAsync(&p, size, pool, 0);
  return e != cudaSuccess ? e : cudaStreamSynchronize(0);
}

static cudaError_t take_array(size_t size) {
  cudaArray_t array;
  cudaChannelFormatDesc four_floats = cudaCreateChannelDesc(32, 32, 32, 32, cudaChannelFormatKindFloat);
  return cudaMallocArray(&array, &four_floats, 16384, size / (16384 * 16));  // rows of 256 KiB
}

static cudaError_t take_managed(size_t size) {
  void *p = nullptr;
  return cudaMallocManaged(&p, size);
}

// The runtime has no such call: the driver's own, found as the runtime finds it. CUmemAllocationProp is 32 bytes.
static cudaError_t take_vmm(size_t size) {
  struct Properties {
    int type, handle_types, location_type, location_id;
    void *windows;
    unsigned char flags[8];
  } pinned_on_card = {1, 0, 1, 0, nullptr, {0}};
  typedef int (*Create)(unsigned long long *, size_t, const Properties *, unsigned long long);
  static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  Create create = driver ? (Create)dlsym(driver, "cuMemCreate") : nullptr;
  unsigned long long handle = 0;
  return create ? (cudaError_t)create(&handle, size, &pinned_on_card, 0) : (cudaError_t)801;  // not supported
}

static const struct Route {
  const char *name;
  cudaError_t (*take)(size_t);
} ROUTES[] = {{"sync", take_sync},   {"pitch", take_pitch}, {"async", take_async},    {"pool", take_pool},
              {"vmm", take_vmm},     {"array", take_array}, {"managed", take_managed}};

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
  bool until_stdin_closes = false, wrong = chunk < 1 || cap < 1 || hold < 0;
  const Route *route = &ROUTES[0];
  for (int i = 4; i < argc; i++) {
    const Route *named = nullptr;
    for (const Route &one : ROUTES)
      if (std::string("route=") + one.name == argv[i]) named = &one;
    if (named) route = named;
    else if (std::strcmp(argv[i], "until-stdin-closes") == 0) until_stdin_closes = true;
    else wrong = true;
  }
  if (wrong) {
    std::fprintf(stderr, "usage: probe CHUNK_MIB CAP_MIB [HOLD_SECONDS [until-stdin-closes] [route=NAME]]\n");
    return 2;
  }
  size_t free_bytes = 0, total_bytes = 0;
  cudaError_t e = cudaMemGetInfo(&free_bytes, &total_bytes);  // makes the context
  if (e != cudaSuccess) {
    std::string words = cudaGetErrorString(e);
    std::replace(words.begin(), words.end(), '"', '\'');
    std::printf("{\"measured\": false, \"route\": \"%s\", \"refused\": false, \"allocated_mib\": 0, \"rc\": %d, "
                "\"rc_name\": \"%s\", \"error\": \"%s\", \"free_before_mib\": null, \"total_mib\": null, "
                "\"chunk_mib\": %ld, \"cap_mib\": %ld}\n",
                route->name, (int)e, cudaGetErrorName(e), words.c_str(), chunk, cap);
    return 3;
  }
  long allocated = 0;
  while (allocated + chunk <= cap) {
    e = route->take((size_t)chunk * MIB);
    if (e != cudaSuccess) {
      if (route == &ROUTES[0])
        std::printf("cudaMalloc refused after %ld MiB allocated: %s\n", allocated, cudaGetErrorString(e));
      break;
    }
    allocated += chunk;
  }
  std::printf("{\"measured\": true, \"route\": \"%s\", \"refused\": %s, \"allocated_mib\": %ld, \"rc\": %d, "
              "\"rc_name\": %s%s%s, \"error\": null, \"free_before_mib\": %zu, \"total_mib\": %zu, "
              "\"chunk_mib\": %ld, \"cap_mib\": %ld}\n",
              route->name, e == cudaSuccess ? "false" : "true", allocated, (int)e, e == cudaSuccess ? "" : "\"",
              e == cudaSuccess ? "null" : cudaGetErrorName(e), e == cudaSuccess ? "" : "\"", free_bytes / MIB,
              total_bytes / MIB, chunk, cap);
  std::fflush(stdout);
  keep(hold, until_stdin_closes);
  return 0;
}
