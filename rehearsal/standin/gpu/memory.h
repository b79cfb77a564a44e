/* A card's memory as a process uses it: what libcuda's stand-in allocates and frees. */
#ifndef REHEARSAL_MEMORY_H
#define REHEARSAL_MEMORY_H

#include "cards.h"

/* Routes that HAMi-core 5091a2f counts, and those it does not (recorded: pool and array). */
enum route { COUNTED, COUNTED_ASYNC, UNCOUNTED };

/* 0 and a handle, or a CUresult. The context of this card is charged first when it is not yet. */
int memory_take(struct card *card, int device, uint64_t bytes, enum route route, uint64_t *handle);
int memory_give(uint64_t handle); /* 0, or 1 (invalid value) for a handle that is not one */
int memory_context(struct card *card, int device);
void memory_info(struct card *card, int device, uint64_t *free_bytes, uint64_t *total);

#endif
