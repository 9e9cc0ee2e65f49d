/* A step of the program removal, without librdmacm. If it fails, it ends the program. */
#ifndef NICLESS_CHECK_REMOVAL_H
#define NICLESS_CHECK_REMOVAL_H

/* Reads the event of the one id on a channel as libraries do that are older than struct rdma_ucm_ece, which
 * offer less room for it, and destroys the id. Without room, the event stays. */
void hear_old(int fd);

#endif
