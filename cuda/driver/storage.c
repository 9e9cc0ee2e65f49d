/*
 * Values that a library keeps for a context, one for each key, until the context ends. CUDA's runtime keeps
 * its state of a device so.
 */
#include "tables.h"

#include <pthread.h>
#include <stdlib.h>

struct kept {
	CUcontext of;
	void *key, *value;
	ended end; /* or NULL */
	struct kept *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *all;

API CUresult cuCtxGetCurrent(CUcontext *c);

/* A context of NULL is the thread's. In a child of fork nobody may wait for the lock, and nothing is kept. */
static int resolve(CUcontext *c) {
	if (started())
		return NOT_INITIALIZED;
	if (!*c)
		cuCtxGetCurrent(c);
	return *c ? OK : INVALID_CONTEXT;
}

/* Returns the place of the link to what is kept, which is NULL if nothing is. */
static struct kept **find(CUcontext c, const void *key) {
	struct kept **at = &all;
	while (*at && ((*at)->of != c || (*at)->key != key))
		at = &(*at)->next;
	return at;
}

int storage_put(CUcontext c, void *key, void *value, ended end) {
	struct kept *k, **at;
	int error = resolve(&c);
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	at = find(c, key);
	if (!*at)
		*at = calloc(1, sizeof **at);
	k = *at;
	if (k) {
		k->of = c;
		k->key = key;
		k->value = value;
		k->end = end;
	}
	pthread_mutex_unlock(&lock);
	return k ? OK : OUT_OF_MEMORY;
}

int storage_remove(CUcontext c, void *key) {
	struct kept **at, *k;
	int error = resolve(&c);
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	at = find(c, key);
	k = *at;
	if (k)
		*at = k->next;
	pthread_mutex_unlock(&lock);
	free(k);
	return k ? OK : INVALID_HANDLE;
}

int storage_get(void **value, CUcontext c, void *key) {
	struct kept *k;
	int error = resolve(&c);
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	k = *find(c, key);
	if (k)
		*value = k->value;
	pthread_mutex_unlock(&lock);
	return k ? OK : INVALID_HANDLE;
}

/* Takes one value of a context out of the list, so that its end is called without the lock. */
static struct kept *take(CUcontext c) {
	struct kept **at = &all, *k;
	pthread_mutex_lock(&lock);
	while (*at && (*at)->of != c)
		at = &(*at)->next;
	k = *at;
	if (k)
		*at = k->next;
	pthread_mutex_unlock(&lock);
	return k;
}

void storage_end(CUcontext c) {
	struct kept *k;
	while ((k = take(c))) {
		if (k->end)
			k->end(c, k->key, k->value);
		free(k);
	}
}
