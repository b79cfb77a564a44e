/* Stand-in for the driver API (libcuda.so.1): devices, contexts and every way to allocate, on pretended memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "memory.h"

typedef int CUresult;
typedef uint64_t CUdeviceptr;

static struct card *cards;
static int count = -1;
static _Thread_local struct card *current; /* a context is its card */

static int known(int device) { return device >= 0 && device < count; }
static int index_of(const struct card *card) { return (int)(card - cards); }

CUresult cuInit(unsigned flags) {
  void (*init)(int) = (void (*)(int))hami_core("hami_core_init");
  if (flags) return 1;
  count = cards_load(&cards);
  if (!count) return 100;
  if (init) init(1);
  return 0;
}
CUresult cuDriverGetVersion(int *version) {
  int whole = 0, part = 0;
  if (!version) return 1;
  struct card *first;
  if (!cards_load(&first)) return 100;
  whole = atoi(first->driver) >= 610 ? 13 : atoi(first->driver) >= 580 ? 13 : 12;
  part = atoi(first->driver) >= 610 ? 3 : 0;
  *version = whole * 1000 + part * 10;
  return 0;
}
CUresult cuDeviceGetCount(int *n) { return count < 0 ? 3 : (*n = count, 0); }
CUresult cuDeviceGet(int *device, int ordinal) { return count < 0 ? 3 : known(ordinal) ? (*device = ordinal, 0) : 101; }
CUresult cuDeviceGetName(char *name, int size, int device) {
  return known(device) ? (snprintf(name, (size_t)size, "%s", cards[device].name), 0) : 101;
}
CUresult cuDeviceGetUuid(unsigned char *uuid, int device) {
  if (!known(device)) return 101;
  const char *text = cards[device].uuid + 4; /* after "GPU-" */
  for (int i = 0; i < 16; i++, text += 2) {
    unsigned byte;
    text += *text == '-';
    if (sscanf(text, "%2x", &byte) != 1) return 1;
    uuid[i] = (unsigned char)byte;
  }
  return 0;
}
CUresult cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }
CUresult cuDeviceTotalMem_v2(size_t *bytes, int device) {
  uint64_t room, total;
  if (!known(device)) return 101;
  memory_info(&cards[device], device, &room, &total);
  *bytes = total;
  return 0;
}
CUresult cuDeviceTotalMem(size_t *bytes, int device) { return cuDeviceTotalMem_v2(bytes, device); }
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  if (!known(device)) return 101;
  *value = attribute == 75 ? cards[device].major : attribute == 76 ? cards[device].minor : 0;
  if (attribute == 102 || attribute == 115) *value = 1; /* virtual memory management, memory pools */
  return 0;
}
CUresult cuDeviceComputeCapability(int *major, int *minor, int device) {
  return known(device) ? (*major = cards[device].major, *minor = cards[device].minor, 0) : 101;
}

static CUresult context(struct card **out, int device) {
  if (!known(device)) return 101;
  *out = &cards[device];
  return memory_context(*out, device);
}
CUresult cuDevicePrimaryCtxRetain(struct card **out, int device) { return context(out, device); }
CUresult cuDevicePrimaryCtxRelease(int device) { return known(device) ? 0 : 101; }
CUresult cuDevicePrimaryCtxRelease_v2(int device) { return known(device) ? 0 : 101; }
CUresult cuCtxCreate(struct card **out, unsigned flags, int device) {
  (void)flags;
  CUresult rc = context(out, device);
  if (!rc) current = *out;
  return rc;
}
CUresult cuCtxCreate_v2(struct card **out, unsigned flags, int device) { return cuCtxCreate(out, flags, device); }
CUresult cuCtxCreate_v4(struct card **out, void *params, unsigned flags, int device) {
  (void)params;
  return cuCtxCreate(out, flags, device);
}
CUresult cuCtxSetCurrent(struct card *context) { return current = context, 0; }
CUresult cuCtxGetCurrent(struct card **out) { return *out = current, 0; }
CUresult cuCtxPushCurrent_v2(struct card *context) { return current = context, 0; }
CUresult cuCtxPopCurrent_v2(struct card **out) { return (out ? *out = current : 0), current = NULL, 0; }
CUresult cuCtxGetDevice(int *device) { return current ? (*device = index_of(current), 0) : 201; }
CUresult cuCtxSynchronize(void) { return current ? 0 : 201; }
CUresult cuCtxDestroy_v2(struct card *context) { return context ? (current = NULL, 0) : 1; }
CUresult cuCtxDestroy(struct card *context) { return cuCtxDestroy_v2(context); }

static CUresult take(uint64_t *out, uint64_t bytes, enum route route) {
  return current ? memory_take(current, index_of(current), bytes, route, out) : 201;
}
CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) { return take(out, bytes, COUNTED); }
CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes) { return take(out, bytes, COUNTED); }
CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
  return (void)flags, take(out, bytes, fault("managed-not-counted") ? UNCOUNTED : COUNTED);
}
CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
  (void)element;
  *pitch = (width + 511) & ~(size_t)511;
  return take(out, *pitch * height, COUNTED);
}
CUresult cuMemAllocPitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
  return cuMemAllocPitch_v2(out, pitch, width, height, element);
}
CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, void *stream) { return (void)stream, take(out, bytes, COUNTED_ASYNC); }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, void *pool, void *stream) {
  (void)stream;
  return pool ? take(out, bytes, UNCOUNTED) : 1;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) { return pointer ? memory_give(pointer) : 0; }
CUresult cuMemFree(CUdeviceptr pointer) { return cuMemFree_v2(pointer); }
CUresult cuMemFreeAsync(CUdeviceptr pointer, void *stream) { return (void)stream, cuMemFree_v2(pointer); }
CUresult cuMemGetInfo_v2(size_t *room, size_t *total) {
  uint64_t free_bytes, all;
  if (!current) return 201;
  memory_info(current, index_of(current), &free_bytes, &all);
  *room = free_bytes, *total = all;
  return 0;
}
CUresult cuMemGetInfo(size_t *room, size_t *total) { return cuMemGetInfo_v2(room, total); }
CUresult cuMemsetD8_v2(CUdeviceptr pointer, unsigned char value, size_t bytes) { return (void)value, (void)bytes, pointer ? 0 : 1; }

CUresult cuDeviceGetDefaultMemPool(void **pool, int device) { return known(device) ? (*pool = &cards[device], 0) : 101; }
CUresult cuDeviceGetMemPool(void **pool, int device) { return cuDeviceGetDefaultMemPool(pool, device); }
CUresult cuMemPoolCreate(void **pool, const void *properties) { return properties ? (*pool = cards, 0) : 1; }
CUresult cuMemPoolDestroy(void *pool) { return pool ? 0 : 1; }
CUresult cuMemPoolTrimTo(void *pool, size_t keep) { return (void)keep, pool ? 0 : 1; }
CUresult cuMemPoolSetAttribute(void *pool, int attribute, void *value) { return (void)attribute, pool && value ? 0 : 1; }

struct allocation_properties {
  int type, handle_types, location_type, location_id;
};
CUresult cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
  (void)option;
  return properties ? (*bytes = 2 * MIB, 0) : 1;
}
CUresult cuMemCreate(uint64_t *out, size_t bytes, const struct allocation_properties *properties, unsigned long long flags) {
  (void)flags;
  if (!properties || bytes % (2 * MIB)) return 1;
  if (!known(properties->location_id)) return 101;
  return memory_take(&cards[properties->location_id], properties->location_id, bytes, COUNTED, out);
}
CUresult cuMemRelease(uint64_t handle) { return memory_give(handle); }
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr at, unsigned long long flags) {
  static CUdeviceptr next = 0x600000000000ULL;
  (void)align, (void)at, (void)flags;
  return bytes ? (*out = __atomic_fetch_add(&next, bytes, __ATOMIC_RELAXED), 0) : 1;
}
CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) { return (void)bytes, pointer ? 0 : 1; }
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags) {
  (void)bytes, (void)offset, (void)flags;
  return pointer && handle ? 0 : 1;
}
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) { return (void)bytes, pointer ? 0 : 1; }
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const void *access, size_t n) {
  return (void)bytes, pointer && access && n ? 0 : 1;
}

struct array_descriptor {
  size_t width, height;
  unsigned format, channels;
};
CUresult cuArrayCreate_v2(uint64_t *out, const struct array_descriptor *wanted) {
  if (!wanted || !wanted->width) return 1;
  /* CUarray_format: 8-bit 0x01 and 0x08; 16-bit 0x02, 0x09 and half 0x10; the others have 32. */
  unsigned format = wanted->format;
  size_t element = format == 1 || format == 8 ? 1 : format == 2 || format == 9 || format == 0x10 ? 2 : 4;
  return take(out, wanted->width * (wanted->height ? wanted->height : 1) * element * wanted->channels, UNCOUNTED);
}
CUresult cuArrayCreate(uint64_t *out, const struct array_descriptor *wanted) { return cuArrayCreate_v2(out, wanted); }
CUresult cuArrayDestroy(uint64_t handle) { return memory_give(handle); }

CUresult cuStreamCreate(void **stream, unsigned flags) { return (void)flags, current ? (*stream = current, 0) : 201; }
CUresult cuStreamSynchronize(void *stream) { return (void)stream, current ? 0 : 201; }
CUresult cuStreamDestroy_v2(void *stream) { return stream ? 0 : 1; }

static const struct { int code; const char *name, *text; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
};
static CUresult explain(int code, const char **text, int name) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code) return *text = name ? errors[i].name : errors[i].text, 0;
  return *text = NULL, 1;
}
CUresult cuGetErrorName(int code, const char **text) { return explain(code, text, 1); }
CUresult cuGetErrorString(int code, const char **text) { return explain(code, text, 0); }
