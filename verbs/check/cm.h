/* The parts of the program cm that write commands themselves. */
#ifndef NICLESS_CHECK_CM_H
#define NICLESS_CHECK_CM_H

void raw_copies(void);
void raw_garbage(unsigned seed);

#endif
