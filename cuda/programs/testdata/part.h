/*
 * A part of a program that has a CUDA runtime of its own: a library, which part.cu makes for each runtime.
 * Handles and memory of one part can be used by another one.
 */
#ifndef NICLESS_TEST_PART_H
#define NICLESS_TEST_PART_H

struct part {
	int (*version)(void);
	unsigned *(*allocate)(unsigned words);
	void (*release)(unsigned *p);
	void *(*stream)(void);
	void (*add)(unsigned *p, unsigned words, void *stream); /* adds the version to each word */
	void (*synchronize)(void *stream);
	unsigned (*count)(void);         /* adds one to a variable of the part, and returns it */
	int (*fail)(void);               /* makes an error, which becomes the last one of the part's runtime */
	int (*last)(void);               /* returns the last error, and forgets it */
	void (*choose)(int device);
	int (*chosen)(void);
};

typedef const struct part *(*part_function)(void);

#endif
