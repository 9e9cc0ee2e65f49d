/* When the engine dies, a thread that waits in a system call is told by the kernel:
 * reads of events return end of file. A program that spins on a completion queue makes
 * no call, and would spin for ever. So the kernel is asked to signal the end of each
 * context's socket (O_ASYNC), and the program is ended by SIGTERM, which it may handle.
 * No thread is needed for that, and nothing happens while all is well. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of all signals the one that programs are least likely to use. */
static int number(void) { return SIGRTMAX; }

static void lost(int signal, siginfo_t *info, void *ignored) {
	static int said;
	int error = errno;
	(void)signal;
	(void)ignored;
	if (info->si_code == POLL_HUP) {
		nv_say(&said, "the engine has gone, and with it every object of this program: it is ended");
		kill(getpid(), SIGTERM);
	}
	errno = error;
}

/* The signal is this process's: to a child, and whoever else gets a copy of the socket, the device is not its
 * own. Where it cannot be had the loss goes unnoticed. */
void nv_watch(int fd) {
	struct sigaction now, ours;
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || sigaction(number(), NULL, &now) != 0)
		return;
	if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != lost) {
		if (now.sa_handler != SIG_DFL)
			return; /* the program has a use for it */
		memset(&ours, 0, sizeof ours);
		ours.sa_sigaction = lost;
		ours.sa_flags = SA_SIGINFO | SA_RESTART;
		sigemptyset(&ours.sa_mask);
		if (sigaction(number(), &ours, NULL) != 0)
			return;
	}
	if (fcntl(fd, F_SETOWN, getpid()) != 0 || fcntl(fd, F_SETSIG, number()) != 0)
		return;
	fcntl(fd, F_SETFL, flags | O_ASYNC);
}
