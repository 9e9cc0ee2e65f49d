/*
 * Reads work requests, one per line:
 *
 *   post OPCODE FLAGS IMM RADDR RKEY SWAP COMPARE INLINE|- {ADDR LENGTH LKEY}
 *
 * Numbers are in C syntax, and data is in hexadecimal.
 */
#ifndef NICLESS_CHECK_REQUEST_H
#define NICLESS_CHECK_REQUEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../nicless/post.h"
#include "device.h"

static uint64_t number(void) {
	const char *word = strtok(0, " \n");
	return word ? strtoull(word, 0, 0) : 0;
}

static uint32_t number32(void) { return (uint32_t)number(); }

/* Reads bytes in hexadecimal ("-" for none) and returns how many there are. */
static uint32_t bytes(uint8_t *to, uint32_t most) {
	const char *word = strtok(0, " \n");
	uint32_t n;
	for (n = 0; word && n < most && word[0] && word[0] != '-'; n++, word += 2) {
		unsigned b;
		if (sscanf(word, "%2x", &b) != 1)
			break;
		to[n] = (uint8_t)b;
	}
	return n;
}

static uint32_t list(struct nicless_sge *sge, uint32_t most) {
	uint32_t n;
	for (n = 0; n < most; n++) {
		const char *word = strtok(0, " \n");
		if (!word)
			break;
		sge[n].addr = strtoull(word, 0, 0);
		sge[n].length = number32();
		sge[n].lkey = number32();
	}
	return n;
}

/* The memory to which the request points that was read last. */
static struct {
	struct nicless_sge sge[NICLESS_MAX_UNITS + 1];
	uint8_t data[NICLESS_MAX_INLINE + 1];
} request PAGES;

/* Reads the words after "post" of a line that strtok has begun. */
static void read_request(struct nicless_wr *wr) {
	memset(wr, 0, sizeof *wr);
	wr->opcode = (uint8_t)number();
	wr->fm_ce_se = (uint8_t)number();
	wr->imm = number32();
	wr->raddr = number();
	wr->rkey = number32();
	wr->swap_add = number();
	wr->compare = number();
	wr->data = request.data;
	wr->inline_bytes = bytes(request.data, sizeof request.data);
	wr->sge = request.sge;
	wr->sges = list(request.sge, NICLESS_MAX_UNITS + 1);
}

#endif
