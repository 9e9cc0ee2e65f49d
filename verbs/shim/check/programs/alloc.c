/* Memory of nicless_buffer, which is shared from the start if there is a server. */
#include <nicless/alloc.h>

#include "try.h"

int main(int argc, char **argv) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE), i;
	int fd = argc > 1 ? -1 : open(DEVICE, O_RDWR);
	unsigned char *at, *other;
	(void)argv;
	at = nicless_buffer(3 * page + 1);
	other = nicless_buffer(1);
	TRY(at && other && at != other && address(at) % page == 0);
	for (i = 0; i < 3 * page + 1; i++)
		TRY(at[i] == 0);
	memset(at, 1, 3 * page + 1);
	if (fd >= 0) {
		pid_t child;
		TRY(count(fd, 2) == 2);
		child = fork();
		TRY(child >= 0);
		if (child == 0) { /* the memory is the parent's: the server gets no request */
			nicless_buffer_free(at);
			_exit(0);
		}
		join(child);
		TRY(count(fd, 2) == 2 && at[3 * page] == 1);
	}
	nicless_buffer_free(at);
	nicless_buffer_free(other);
	nicless_buffer_free(NULL);
	at = malloc(10); /* not from nicless_alloc: nicless_buffer_free calls free */
	nicless_buffer_free(at);
	TRY(nicless_buffer(0) == NULL && nicless_buffer((size_t)-1) == NULL);
	if (fd >= 0)
		TRY(count(fd, 2) == 0);
	return 0;
}
