/* The cards this process may see: the node's (/etc/rehearsal/cards.tsv), narrowed to a container's list. */
#ifndef REHEARSAL_CARDS_H
#define REHEARSAL_CARDS_H

#include "ledger.h"

#define MIB (1024ULL * 1024ULL)

struct card {
  int major, minor;
  char uuid[64], name[128], driver[32], bus[32];
  uint64_t memory, reserved, context; /* bytes */
  struct ledger ledger;
};

/* How many cards are visible (0: none); fills `cards` once and again after a fork. */
int cards_load(struct card **cards);
/* What processes can use at most. A little under total - reserved, as on a real card. */
uint64_t card_capacity(const struct card *card);
/* HAMi-core, when it is preloaded into this process, else NULL. */
void *hami_core(const char *symbol);

#endif
