/* Ends the program after the end of the engine. A thread that waits for events in a system
 * call notices the end, because the read returns end of file. A program that spins on a
 * completion queue makes no system call and would spin for ever. So the kernel is asked to
 * send a signal when the other end of a context's socket is closed (O_ASYNC). The handler
 * of the signal ends the program by SIGTERM, which the program may handle. This needs no
 * thread, and costs nothing as long as the engine runs. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The signal that programs are least likely to use. */
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

/* The signal goes to this process only, not to a child or another process that has a copy of
 * the socket. If the program uses the signal itself, the end of the engine goes unnoticed. */
void nv_watch(int fd) {
	struct sigaction now, ours;
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || sigaction(number(), NULL, &now) != 0)
		return;
	if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != lost) {
		if (now.sa_handler != SIG_DFL)
			return; /* the program uses it */
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
