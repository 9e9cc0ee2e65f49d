/* valgrind runs this library with the program, and would blame the program for what the library does:
 * it sends structures with their padding, and copies whole pages of the heap. So valgrind reports no
 * errors while a thread is in the library. The requests are instructions that change nothing, by
 * which valgrind knows them ("client requests" of valgrind.h). */
#include "shim.h"

#include <stdint.h>

enum {
	RUNNING_ON_VALGRIND = 0x1001,
	CHANGE_ERR_DISABLEMENT = 0x1801, /* argument: 1 or -1, added to the thread's count */
};

/* Returns valgrind's answer, and 0 where there is no valgrind. */
static uint64_t request(uint64_t what, int argument) {
	volatile uint64_t words[6] = {what};
	words[1] = (uint64_t)(int64_t)argument;
#if defined(__x86_64__)
	uint64_t result = 0;
	/* The rotations are by 128 bits in all; then rdx = request(rax). */
	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
	                 : "+d"(result)
	                 : "a"(words)
	                 : "cc", "memory");
	return result;
#elif defined(__aarch64__)
	/* As above; then x3 = request(x4). */
	register uint64_t result __asm__("x3") = 0;
	register volatile uint64_t *at __asm__("x4") = words;
	__asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; "
	                 "orr x10, x10, x10"
	                 : "+r"(result)
	                 : "r"(at)
	                 : "cc", "memory");
	return result;
#else
	(void)words;
	return 0;
#endif
}

void nv_quiet(int change) { (void)request(CHANGE_ERR_DISABLEMENT, change); }

bool nv_in_valgrind(void) { return request(RUNNING_ON_VALGRIND, 0) != 0; }
