/* Ends the program after the end of the engine, if it does not hear of it. A thread that waits for events in
 * a system call notices the end, because the read returns DEVICE_FATAL, or an error (final.c). A program that
 * spins on a completion queue makes no system call and would spin for ever: with hardware that has failed it
 * does. So the kernel is asked to send a signal when the other end of a context's socket is closed (O_ASYNC).
 * Programs that read DEVICE_FATAL, or DEVICE_REMOVAL of rdma_cm, within GRACE know what they do, and go on.
 * Others are ended by SIGTERM, which the program may handle. This needs no thread, and costs nothing as long
 * as the engine runs. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "real.h"

/* Seconds: a thread that waits for events reads them at once, but a busy machine may not let it. */
enum { GRACE = 2 };

/* The signal that programs are least likely to use. */
static int number(void) { return SIGRTMAX; }

static int heard;   /* the program has read DEVICE_FATAL, or DEVICE_REMOVAL */
static pid_t owner; /* process that has the timer; 0: none could be made */
static int timer;   /* as the kernel numbers it: the C library's functions need one that is new */

void nv_heard(void) { __atomic_store_n(&heard, 1, __ATOMIC_RELAXED); }

/* Sets the timer, or stops it if seconds is 0. It may be called by the handler of a signal. */
static bool set(int seconds) {
	struct itimerspec at;
	memset(&at, 0, sizeof at);
	at.it_value.tv_sec = seconds;
	return owner == getpid() && NV_SYSCALL(SYS_timer_settime, timer, 0, &at, NULL) == 0;
}

static void end(void) {
	static int said;
	nv_say(&said, "the program has not read its last event, DEVICE_FATAL, within %d s: it is ended", GRACE);
	kill(getpid(), SIGTERM);
}

static void lost(int signal, siginfo_t *info, void *ignored) {
	static int said;
	int error = errno;
	(void)signal;
	(void)ignored;
	if (info->si_code == POLL_HUP) {
		nv_say(&said, "the engine has gone, and with it every object of this program");
		if (!__atomic_load_n(&heard, __ATOMIC_RELAXED) && !set(GRACE))
			end();
	} else if (info->si_code == SI_TIMER && !__atomic_load_n(&heard, __ATOMIC_RELAXED)) {
		end();
	}
	errno = error;
}

/* Makes the timer of this process. A child of a fork has none. */
static void make_timer(void) {
	struct sigevent event;
	if (owner == getpid())
		return;
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = number();
	owner = NV_SYSCALL(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0 ? getpid() : 0;
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
	make_timer();
	if (__atomic_exchange_n(&heard, 0, __ATOMIC_RELAXED))
		set(0); /* the program has heard of the end of one engine, and opens a device of the next */
	if (fcntl(fd, F_SETOWN, getpid()) != 0 || fcntl(fd, F_SETSIG, number()) != 0)
		return;
	fcntl(fd, F_SETFL, flags | O_ASYNC);
}
