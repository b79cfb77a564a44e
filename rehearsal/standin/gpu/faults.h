/* What is broken on purpose, read from the node's own description each time it is asked. */
#ifndef REHEARSAL_FAULTS_H
#define REHEARSAL_FAULTS_H

int fault(const char *name);

#endif
