/* How the programs of these tests check: what is wrong is printed with its line, and ends the program. */
#ifndef NICLESS_TEST_CHECK_H
#define NICLESS_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			printf("line %d: not so: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)
#define WANT(error, call) \
	do { \
		int error_ = (int)(call); \
		if (error_ != (int)(error)) { \
			printf("line %d: %s returned %d, and not %d\n", __LINE__, #call, error_, (int)(error)); \
			exit(1); \
		} \
	} while (0)
#define OK(call) WANT(0, call)

#endif
