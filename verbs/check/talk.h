/* The stream by which two programs on different hosts exchange what they need to connect queue pairs. */
#ifndef NICLESS_CHECK_TALK_H
#define NICLESS_CHECK_TALK_H

#include <stddef.h>

/* Return a socket. Addresses are numbers. */
int talk_listen(const char *port);
int talk_accept(int listener);
int talk_connect(const char *address, const char *port);

/* Sends mine and receives as many bytes from the other side. */
void talk_swap(int talk, const void *mine, void *theirs, size_t n);

#endif
