/* Copies what is in the rings. Formats: struct mlx5_wqe_ctrl_seg, mlx5_wqe_data_seg and mlx5_cqe64 of
 * infiniband/mlx5dv.h. The program's own library has written or will read the same bytes; nevertheless every
 * length is checked, because programs can write into rings by mistake. */
#include "record.h"

#include <endian.h>
#include <string.h>

enum {
	BLOCK = 64,
	UNIT = 16,
	GRH = 40,
	MOST_RECEIVE = 32 << 10, /* bytes: max_sge of a device is a number of 16 bits, and far less */
	MOST_DATA = 60 << 10, /* of a record: an event of a trace takes less than 64 KiB */
};

static uint16_t count_of(const volatile __be32 *record) {
	return (uint16_t)be32toh(__atomic_load_n(record, __ATOMIC_ACQUIRE));
}

/* Returns the address of memory that a key gives access to, or 0. */
static uint64_t address(const struct nr_object *context, uint32_t key, uint64_t iova, uint64_t n) {
	const struct nr_object *k = nr_number(NR_KEY, context, key);
	uint64_t off;
	if (!k || k->going)
		return 0;
	off = iova - k->u.key.iova;
	return off <= k->u.key.length && n <= k->u.key.length - off ? k->u.key.address + off : 0;
}

static void payload(struct nr_object *qp, uint16_t index, uint64_t at, const uint8_t *from, uint64_t n) {
	struct nr_head h = {.kind = NR_PAYLOAD, .time = nr_now(), .id = qp->id};
	for (uint64_t done = 0, k; done < n; done += k) {
		k = n - done < MOST_DATA ? n - done : MOST_DATA;
		h.value = index | (at + done) << 16;
		if (!nr_write(&h, from + done, k)) {
			nr_lost(qp->id, NR_LOST_PAYLOAD);
			return;
		}
	}
}

/* Copies a part of the shadow ring, which begins again after its last byte. */
static void take(const struct nr_object *qp, uint64_t at, uint8_t *to, size_t n) {
	size_t size = (size_t)qp->u.qp.blocks * BLOCK;
	for (size_t i = 0; i < n; i += UNIT)
		memcpy(to + i, qp->u.qp.shadow + (at + i) % size, UNIT);
}

static bool brings(uint8_t opcode) {
	return opcode == MLX5_OPCODE_RDMA_READ || opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA;
}

/* Returns how many bytes precede the data segments of a WQE, or 0 if it has none. */
static size_t before_data(const struct nr_object *qp, uint8_t opcode) {
	switch (opcode) {
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
	case MLX5_OPCODE_SEND_INVAL:
		return qp->u.qp.type == IBV_QPT_UD ? 64 : 16;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
		return 32;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		return 48;
	}
	return 0;
}

/* Records the payload of the WQE in wqe, whose length is a multiple of UNIT. */
static void payload_of(struct nr_object *qp, uint16_t index, const uint8_t *wqe, size_t length) {
	size_t at = before_data(qp, wqe[3]);
	uint64_t place = qp->u.qp.type == IBV_QPT_UD ? GRH : 0, n, from;
	uint32_t count, key;
	while (at && at + UNIT <= length) {
		memcpy(&count, wqe + at, 4);
		memcpy(&key, wqe + at + 4, 4);
		memcpy(&from, wqe + at + 8, 8);
		count = be32toh(count);
		n = count & 0x7fffffff;
		if (count >> 31) { /* inline */
			if (n > length - at - 4)
				return;
			payload(qp, index, place, wqe + at + 4, n);
			at += (4 + n + UNIT - 1) & ~(uint64_t)(UNIT - 1);
		} else {
			n = n ? n : UINT64_C(1) << 31;
			from = address(qp->context, be32toh(key), be64toh(from), n);
			if (!from) {
				nr_lost(qp->id, NR_LOST_PAYLOAD);
				return;
			}
			payload(qp, index, place, (const uint8_t *)(uintptr_t)from, n);
			at += UNIT;
		}
		place += n;
	}
}

/* Calls payload_of for the WQEs from an index on that bring something, or for those that do not. Returns the
 * index after the last one. */
static uint16_t payloads(struct nr_object *qp, uint16_t index, uint16_t end, bool bringing) {
	uint8_t wqe[64 * UNIT]; /* the 6 bits of ds say at most 63 */
	int32_t left = (uint16_t)(end - index), blocks;
	if (left > (int32_t)qp->u.qp.blocks)
		return index; /* they have ended before */
	for (; left > 0; left -= blocks) {
		size_t at = (size_t)(index % qp->u.qp.blocks) * BLOCK, n;
		take(qp, at, wqe, UNIT);
		n = (size_t)(wqe[7] & 0x3f) * UNIT;
		if (n < UNIT)
			n = UNIT;
		take(qp, at, wqe, n);
		if (brings(wqe[3]) == bringing)
			payload_of(qp, index, wqe, n);
		blocks = (int32_t)((n + BLOCK - 1) / BLOCK);
		index = (uint16_t)(index + blocks);
	}
	return index;
}

void nr_copy_posted(struct nr_object *qp, uint64_t time) {
	struct nr_head h = {.kind = NR_POST, .time = time, .id = qp->id};
	uint16_t end, from = qp->u.qp.posted;
	if (qp->going || qp->own || !qp->u.qp.blocks || !qp->u.qp.shadow)
		return;
	end = count_of(qp->u.qp.record + MLX5_SND_DBR);
	if ((uint16_t)(end - from) > qp->u.qp.blocks)
		return; /* the program has reset the record */
	for (uint16_t i = from; i != end; i++) {
		size_t at = (size_t)(i % qp->u.qp.blocks) * BLOCK;
		memcpy(qp->u.qp.shadow + at, qp->u.qp.sq + at, BLOCK);
	}
	for (uint16_t i = from; i != end;) { /* up to the end of the ring, and what a record takes */
		uint16_t n = (uint16_t)(end - i), at = (uint16_t)(i % qp->u.qp.blocks);
		if (n > qp->u.qp.blocks - at)
			n = (uint16_t)(qp->u.qp.blocks - at);
		if (n > MOST_DATA / BLOCK)
			n = MOST_DATA / BLOCK;
		h.value = i;
		nr_write(&h, qp->u.qp.shadow + (size_t)at * BLOCK, (size_t)n * BLOCK);
		i = (uint16_t)(i + n);
	}
	qp->u.qp.posted = end;
	payloads(qp, from, end, false);
}

/* Records the header of a datagram, which is at the begin of the memory of its receive. */
static void header(struct nr_object *qp, const struct nr_head *cqe, const uint8_t *entry, size_t n) {
	struct nr_head h = {.kind = NR_GRH, .time = cqe->time, .id = cqe->id, .value = cqe->value};
	uint32_t count, key;
	uint64_t from;
	if (n < UNIT)
		return;
	memcpy(&count, entry, 4);
	memcpy(&key, entry + 4, 4);
	memcpy(&from, entry + 8, 8);
	if (be32toh(count) < GRH)
		return;
	from = address(qp->context, be32toh(key), be64toh(from), GRH);
	if (from)
		nr_write(&h, (const void *)(uintptr_t)from, GRH);
}

/* Whether a completion of this opcode is that of a receive. */
static bool responds(uint8_t op) {
	return (op >= MLX5_CQE_RESP_WR_IMM && op <= MLX5_CQE_RESP_SEND_INV) || op == MLX5_CQE_RESP_ERR;
}

static void completion(struct nr_object *cq, const uint8_t *cqe) {
	struct nr_head h = {.kind = NR_CQE, .time = nr_now(), .id = cq->id, .value = cq->u.cq.seen};
	static uint8_t data[8 + BLOCK + MOST_RECEIVE]; /* stacks of threads may be small */
	uint8_t op = cqe[63] >> 4;
	const uint8_t *ring = NULL;
	size_t n = 8 + BLOCK, stride = 0, skip = 0;
	uint32_t number;
	uint16_t counter, entries = 0;
	struct nr_object *qp;
	memcpy(&number, cqe + 56, 4);
	memcpy(&counter, cqe + 60, 2);
	counter = be16toh(counter);
	qp = nr_number(NR_QP, cq->context, be32toh(number) & 0xffffff);
	memset(data, 0, 8);
	memcpy(data + 8, cqe, BLOCK);
	if (qp) {
		memcpy(data, &qp->id, 8);
		if (op == MLX5_CQE_REQ && !qp->going && !qp->own && qp->u.qp.shadow && qp->u.qp.send_cq == cq) {
			nr_copy_posted(qp, h.time);
			qp->u.qp.done = payloads(qp, qp->u.qp.done, (uint16_t)(counter + 1), true);
		}
		if (responds(op) && qp->u.qp.srq && !qp->u.qp.srq->going) {
			ring = qp->u.qp.srq->u.srq.ring;
			stride = qp->u.qp.srq->u.srq.stride;
			entries = (uint16_t)(qp->u.qp.srq->u.srq.entries - 1);
			skip = UNIT;
		} else if (responds(op) && qp->u.qp.receives && !qp->going) {
			ring = qp->u.qp.rq;
			stride = qp->u.qp.stride;
			entries = (uint16_t)(qp->u.qp.receives - 1);
		}
		if (ring && stride <= MOST_RECEIVE) {
			memcpy(data + n, ring + (size_t)(counter & entries) * stride, stride);
			n += stride;
		}
	}
	nr_write(&h, data, n);
	number = be32toh(number) & 0xffffff;
	cq->u.cq.copied[(cq->u.cq.at + cq->u.cq.count++) & (cq->u.cq.entries - 1)] = number;
	if (qp && qp->u.qp.type == IBV_QPT_UD && n > 8 + BLOCK + skip)
		header(qp, &h, data + 8 + BLOCK + skip, n - 8 - BLOCK - skip);
}

void nr_copy_completions(struct nr_object *cq) {
	uint8_t cqe[BLOCK];
	if (!nr_records(cq) || cq->going || cq->own || cq->u.cq.cleaning)
		return;
	while (cq->u.cq.count < cq->u.cq.entries) {
		uint64_t seen = cq->u.cq.seen;
		const uint8_t *at = cq->u.cq.ring + (seen & (cq->u.cq.entries - 1)) * cq->u.cq.size + cq->u.cq.size - BLOCK;
		uint8_t own = __atomic_load_n(at + 63, __ATOMIC_ACQUIRE); /* before the other bytes */
		if (own >> 4 == MLX5_CQE_INVALID || (own & 1) != (seen / cq->u.cq.entries & 1))
			return;
		memcpy(cqe, at, BLOCK);
		if ((own >> 2 & 3) == 3) { /* format of a compressed session */
			nr_lost(cq->id, NR_LOST_COMPRESSED);
			cq->u.cq.entries = 0;
			return;
		}
		completion(cq, cqe);
		cq->u.cq.seen++;
	}
}
