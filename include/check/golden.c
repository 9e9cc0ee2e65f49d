/*
 * Prints in hexadecimal what the headers write, so that the Go tests of this folder
 * can compare it with the bytes of the vendor's library and of Go. It reads one
 * request per line from standard input and prints one line for each answer. Numbers
 * are in C syntax.
 *
 *   queue BLOCKS QPN                makes a send queue and sets its memory to zero
 *   move COUNT                      completes everything before COUNT, and sets the memory to zero
 *   post OPCODE FLAGS IMM RADDR RKEY SWAP COMPARE INLINE|- {ADDR LENGTH LKEY}
 *   ring                            answers ring, record, register
 *   recv STRIDE COUNT {ADDR LENGTH LKEY}      answers entry, record
 *   cqe LOG INDEX BYTES             answers the fields of a CQE
 *   arm CQN SN SOLICITED CI         answers record, register
 *   ci COUNT                        answers the record after the poll of entry COUNT - 1
 *   send INDEX BLOCKS LADDR LKEY LENGTH SIGNALED OP RADDR RKEY QPN
 *                                   RDMaxcel's send_wqe and db_ring: answers WQE, record, register
 *   receive INDEX ENTRIES LADDR LKEY LENGTH [STRIDE]
 *                                   RDMaxcel's recv_wqe: answers 32 bytes of the entry, record
 *   poll INDEX ENTRIES BYTES        RDMaxcel's cqe_poll of these bytes in their slot: answers byte_cnt,
 *                                   record
 *   layout                          answers messages and constants of the control protocol, with a line
 *                                   for each and a dot at the end
 */
#include "../nicless/nicless_verbs.h"
#include "../nicless/rdmaxcel.h"
#include "request.h"

/* All memory of the functions, except that of a request. */
static struct shared {
	uint8_t ring[NICLESS_MAX_RING * NICLESS_BLOCK];
	uint64_t reg[NICLESS_REG / 8];
	uint32_t record[2];
	uint64_t memory[NICLESS_MAX_RING * 3];
	struct nicless_sq sq;
	struct nicless_rq rq;
	struct nicless_cq cq;
	uint64_t id[8];
	struct nicless_sge sge[65];
	uint8_t cqe[64];
	uint64_t tail;
	struct nicless_wc wc;
	int32_t byte_cnt;
} shared PAGES;

static void print(const void *from, size_t n, char end) {
	const uint8_t *b = (const uint8_t *)from;
	size_t i;
	for (i = 0; i < n; i++)
		printf("%02x", b[i]);
	putchar(end);
}

static int queue(void) {
	struct shared *s = &shared;
	uint64_t size = number();
	uint32_t qpn = number32();
	memset(s->ring, 0, sizeof s->ring);
	memset(s->reg, 0, sizeof s->reg);
	memset(s->record, 0, sizeof s->record);
	return RESULT(nicless_sq_init(&s->sq, s->ring, size, s->record, s->reg, qpn, s->memory));
}

static int move(void) {
	struct shared *s = &shared;
	uint64_t count = number();
	memset(s->ring, 0, sizeof s->ring);
	memset(s->reg, 0, sizeof s->reg);
	memset(s->memory, 0, sizeof s->memory);
	s->sq.reserved = s->sq.seen = s->sq.rung = s->sq.freed = count;
	return 0;
}

static int post(void) {
	struct shared *s = &shared;
	struct nicless_wr wr;
	read_request(&wr);
	return RESULT(nicless_sq_post(&s->sq, &wr));
}

static void ring(void) {
	struct shared *s = &shared;
	RUN(nicless_sq_ring(&s->sq));
	print(s->ring, s->sq.size * NICLESS_BLOCK, ' ');
	print(s->record, 8, ' ');
	print(s->reg, sizeof s->reg, '\n');
}

static void recv_entry(void) {
	struct shared *s = &shared;
	uint64_t stride = number(), count = number();
	uint32_t pieces = list(s->sge, 65);
	int error;
	memset(s->ring, 0, sizeof s->ring);
	memset(s->record, 0, sizeof s->record);
	error = RESULT(nicless_rq_init(&s->rq, s->ring, 8, stride, s->record, s->id));
	s->rq.next = s->rq.freed = count;
	if (error == 0)
		error = RESULT(nicless_rq_post(&s->rq, s->sge, pieces, 0));
	if (error) {
		printf("error %d\n", error);
		return;
	}
	RUN(nicless_rq_ring(&s->rq));
	print(s->ring + count % 8 * stride, stride, ' ');
	print(s->record, 8, '\n');
}

static void entry(void) {
	struct shared *s = &shared;
	const struct nicless_wc *wc = &s->wc;
	uint32_t log = number32();
	uint64_t index = number();
	bytes(s->cqe, sizeof s->cqe);
	RUN(s->tail = nicless_cqe_observe(s->cqe));
	RUN(nicless_wc_parse(&s->wc, s->tail, s->cqe));
	printf("%d %u %u %u %u %u %u %u %u %u %llu\n", RESULT(nicless_cqe_valid((uint8_t)s->tail, index, log)), wc->kind,
	       wc->opcode, wc->qpn, wc->uidx, wc->counter, wc->bytes, wc->imm, wc->syndrome, wc->vendor,
	       (unsigned long long)wc->timestamp);
}

static void arm(void) {
	struct shared *s = &shared;
	uint32_t cqn = number32(), sn = number32();
	int solicited = (int)number();
	memset(&s->cq, 0, sizeof s->cq);
	s->cq.record = s->record;
	s->cq.ci = number();
	s->record[1] = 0;
	RUN(nicless_cq_arm(&s->cq, s->reg, cqn, sn, solicited));
	print(&s->record[1], 4, ' ');
	print(s->reg, 8, '\n');
}

static void ci(void) {
	struct shared *s = &shared;
	uint64_t count = number();
	memset(s->ring, 0, sizeof s->ring);
	RUN(nicless_cq_init(&s->cq, s->ring, 4, 64, s->record));
	s->cq.ci = count - 1;
	s->ring[(count - 1) % 16 * 64 + 63] = (uint8_t)((count - 1) >> 4 & 1);
	RUN(nicless_cq_poll(&s->cq, &s->wc, 2));
	print(s->record, 4, '\n');
}

static void rdmaxcel(int receive) {
	struct shared *s = &shared;
	wqe_params_t p;
	uint8_t *slot;
	memset(&p, 0, sizeof p);
	memset(s->ring, 0xee, sizeof s->ring); /* marks stale bytes */
	memset(s->record, 0, sizeof s->record);
	p.buf = s->ring;
	p.dbrec = s->record;
	p.wr_id = number();
	p.wqe_cnt = number32();
	p.laddr = (uintptr_t)number();
	p.lkey = number32();
	p.length = (size_t)number();
	slot = s->ring + (p.wqe_cnt ? (size_t)(p.wr_id & (p.wqe_cnt - 1)) * 64 : 0);
	if (receive) {
		uint32_t stride = number32();
		slot = s->ring + (slot - s->ring) / 64 * (stride ? stride : NICLESS_RECV_STRIDE);
		if (stride)
			RUN(nicless_recv_wqe(p, stride));
		else
			RUN(recv_wqe(p));
		print(slot, 32, ' ');
		print(s->record, 8, '\n');
		return;
	}
	p.signaled = number() != 0;
	p.op_type = number32();
	p.raddr = (uintptr_t)number();
	p.rkey = number32();
	p.qp_num = number32();
	RUN(send_wqe(p));
	RUN(db_ring(s->reg, slot));
	print(slot, 64, ' ');
	print(s->record, 8, ' ');
	print(s->reg, 64, '\n');
}

static void poll_entry(void) {
	struct shared *s = &shared;
	cqe_poll_params_t p;
	s->byte_cnt = -1;
	memset(s->ring, 0xff, sizeof s->ring);
	memset(s->record, 0, sizeof s->record);
	p.cqe_buf = s->ring;
	p.cqe_size = 64;
	p.consumer_index = number32();
	p.cqe_cnt = number32();
	p.dbrec = s->record;
	bytes(s->ring + (p.consumer_index & (p.cqe_cnt - 1)) * 64, 64);
	RUN(cqe_poll(&s->byte_cnt, p));
	printf("%d ", s->byte_cnt);
	print(s->record, 4, '\n');
}

#define SIZE(name, type) printf("size %s %zu\n", name, sizeof(struct type))
#define FIELD(name, type, field) \
	printf("field %s %s %zu %zu\n", name, #field, offsetof(struct type, field), \
	       sizeof(((struct type *)0)->field))
#define VALUE(table, name, value) printf("value %s=%s %llu\n", table, name, (unsigned long long)(value))

static void layout(void) {
	FIELD("Header", nicless_header, op); FIELD("Header", nicless_header, flags);
	FIELD("Header", nicless_header, size); FIELD("Header", nicless_header, tag);
	FIELD("Hello", nicless_hello, magic); FIELD("Hello", nicless_hello, major);
	FIELD("Hello", nicless_hello, minor); FIELD("Hello", nicless_hello, features);
	SIZE("Welcome", nicless_welcome);
	FIELD("Welcome", nicless_welcome, major); FIELD("Welcome", nicless_welcome, minor);
	FIELD("Welcome", nicless_welcome, uar_pages); FIELD("Welcome", nicless_welcome, features);
	FIELD("Welcome", nicless_welcome, guid); FIELD("Welcome", nicless_welcome, max_regions);
	FIELD("Welcome", nicless_welcome, max_pds); FIELD("Welcome", nicless_welcome, max_mrs);
	FIELD("Welcome", nicless_welcome, max_cqs); FIELD("Welcome", nicless_welcome, max_qps);
	FIELD("Welcome", nicless_welcome, max_channels); FIELD("Welcome", nicless_welcome, max_bytes);
	FIELD("Welcome", nicless_welcome, max_log_sq); FIELD("Welcome", nicless_welcome, max_log_rq);
	FIELD("Welcome", nicless_welcome, max_log_cq); FIELD("Welcome", nicless_welcome, max_rd_atomic);
	FIELD("Welcome", nicless_welcome, max_message_log);
	SIZE("RegionSize", nicless_create_region);
	FIELD("RegionSize", nicless_create_region, size);
	SIZE("Placement", nicless_place_region);
	FIELD("Placement", nicless_place_region, region); FIELD("Placement", nicless_place_region, addr);
	SIZE("MR", nicless_reg_mr);
	FIELD("MR", nicless_reg_mr, pdn); FIELD("MR", nicless_reg_mr, access);
	FIELD("MR", nicless_reg_mr, addr); FIELD("MR", nicless_reg_mr, length); FIELD("MR", nicless_reg_mr, iova);
	SIZE("CQ", nicless_create_cq);
	FIELD("CQ", nicless_create_cq, buf); FIELD("CQ", nicless_create_cq, dbrec);
	FIELD("CQ", nicless_create_cq, handle); FIELD("CQ", nicless_create_cq, channel);
	FIELD("CQ", nicless_create_cq, flags); FIELD("CQ", nicless_create_cq, log_size);
	FIELD("CQ", nicless_create_cq, log_cqe); FIELD("CQ", nicless_create_cq, uar);
	FIELD("CQ", nicless_create_cq, mini_format);
	SIZE("QP", nicless_create_qp);
	FIELD("QP", nicless_create_qp, pdn); FIELD("QP", nicless_create_qp, send_cqn);
	FIELD("QP", nicless_create_qp, recv_cqn); FIELD("QP", nicless_create_qp, user_index);
	FIELD("QP", nicless_create_qp, sq); FIELD("QP", nicless_create_qp, rq);
	FIELD("QP", nicless_create_qp, dbrec);
	FIELD("QP", nicless_create_qp, type); FIELD("QP", nicless_create_qp, log_sq);
	FIELD("QP", nicless_create_qp, log_rq); FIELD("QP", nicless_create_qp, log_rq_stride);
	FIELD("QP", nicless_create_qp, uar); FIELD("QP", nicless_create_qp, no_receive);
	FIELD("QP", nicless_create_qp, signature_on); FIELD("QP", nicless_create_qp, srqn);
	FIELD("QP", nicless_create_qp, managed);
	FIELD("QP", nicless_create_qp, blue_flame);
	FIELD("QP", nicless_create_qp, scatter);
	FIELD("QP", nicless_create_qp, streams);
	SIZE("QPAttr", nicless_qp_attr);
	FIELD("QPAttr", nicless_qp_attr, qpn); FIELD("QPAttr", nicless_qp_attr, mask);
	FIELD("QPAttr", nicless_qp_attr, state); FIELD("QPAttr", nicless_qp_attr, cur_state);
	FIELD("QPAttr", nicless_qp_attr, port); FIELD("QPAttr", nicless_qp_attr, path_mtu);
	FIELD("QPAttr", nicless_qp_attr, timeout); FIELD("QPAttr", nicless_qp_attr, retry_count);
	FIELD("QPAttr", nicless_qp_attr, rnr_retry); FIELD("QPAttr", nicless_qp_attr, min_rnr_timer);
	FIELD("QPAttr", nicless_qp_attr, max_rd_atomic); FIELD("QPAttr", nicless_qp_attr, max_dest_rd_atomic);
	FIELD("QPAttr", nicless_qp_attr, pkey_index); FIELD("QPAttr", nicless_qp_attr, access);
	FIELD("QPAttr", nicless_qp_attr, rq_psn); FIELD("QPAttr", nicless_qp_attr, sq_psn);
	FIELD("QPAttr", nicless_qp_attr, dest_qpn); FIELD("QPAttr", nicless_qp_attr, guid);
	FIELD("QPAttr", nicless_qp_attr, qkey);
	FIELD("QPAttr", nicless_qp_attr, executed);
	FIELD("QPAttr", nicless_qp_attr, announced);
	FIELD("Error", nicless_refusal, code);
	FIELD("Reasons", nicless_reason, number); FIELD("Reasons", nicless_reason, queue);
	FIELD("Reasons", nicless_reason, index); FIELD("Reasons", nicless_reason, of);
	FIELD("Reasons", nicless_reason, has_wqe); FIELD("Reasons", nicless_reason, cause_of);
	FIELD("Reasons", nicless_reason, cause_queue); FIELD("Reasons", nicless_reason, cause_index);
	FIELD("Reasons", nicless_reason, cause_kind); FIELD("Reasons", nicless_reason, syndrome);
	FIELD("Reasons", nicless_reason, code); FIELD("Reasons", nicless_reason, text_bytes);
	FIELD("Reasons", nicless_reason, wqe); FIELD("Reasons", nicless_reason, text);
	VALUE("Operations", "hello", NICLESS_OP_HELLO);
	VALUE("Operations", "alloc_pd", NICLESS_OP_ALLOC_PD);
	VALUE("Operations", "dealloc_pd", NICLESS_OP_DEALLOC_PD);
	VALUE("Operations", "create_region", NICLESS_OP_CREATE_REGION);
	VALUE("Operations", "drop_region", NICLESS_OP_DROP_REGION);
	VALUE("Operations", "reg_mr", NICLESS_OP_REG_MR);
	VALUE("Operations", "dereg_mr", NICLESS_OP_DEREG_MR);
	VALUE("Operations", "create_channel", NICLESS_OP_CREATE_CHANNEL);
	VALUE("Operations", "destroy_channel", NICLESS_OP_DESTROY_CHANNEL);
	VALUE("Operations", "create_cq", NICLESS_OP_CREATE_CQ);
	VALUE("Operations", "destroy_cq", NICLESS_OP_DESTROY_CQ);
	VALUE("Operations", "create_qp", NICLESS_OP_CREATE_QP);
	VALUE("Operations", "modify_qp", NICLESS_OP_MODIFY_QP);
	VALUE("Operations", "query_qp", NICLESS_OP_QUERY_QP);
	VALUE("Operations", "destroy_qp", NICLESS_OP_DESTROY_QP);
	VALUE("Operations", "place_region", NICLESS_OP_PLACE_REGION);
	VALUE("Access rights", "local_write", NICLESS_LOCAL_WRITE);
	VALUE("Access rights", "remote_write", NICLESS_REMOTE_WRITE);
	VALUE("Access rights", "remote_read", NICLESS_REMOTE_READ);
	VALUE("Access rights", "remote_atomic", NICLESS_REMOTE_ATOMIC);
	VALUE("CQ flags", "collapsed", NICLESS_CQ_COLLAPSED);
	VALUE("CQ flags", "ignore_overrun", NICLESS_CQ_IGNORE_OVERRUN);
	VALUE("CQ flags", "compressed", NICLESS_CQ_COMPRESSED);
	VALUE("QP types", "RC", NICLESS_RC);
	VALUE("QP types", "UC", NICLESS_UC);
	VALUE("QP types", "UD", NICLESS_UD);
	VALUE("QP states", "RST", NICLESS_RST);
	VALUE("QP states", "INIT", NICLESS_INIT);
	VALUE("QP states", "RTR", NICLESS_RTR);
	VALUE("QP states", "RTS", NICLESS_RTS);
	VALUE("QP states", "ERR", NICLESS_ERR);
	VALUE("Attribute mask", "state", NICLESS_ATTR_STATE);
	VALUE("Attribute mask", "access", NICLESS_ATTR_ACCESS);
	VALUE("Attribute mask", "pkey_index", NICLESS_ATTR_PKEY_INDEX);
	VALUE("Attribute mask", "port", NICLESS_ATTR_PORT);
	VALUE("Attribute mask", "guid", NICLESS_ATTR_GUID);
	VALUE("Attribute mask", "path_mtu", NICLESS_ATTR_PATH_MTU);
	VALUE("Attribute mask", "timeout", NICLESS_ATTR_TIMEOUT);
	VALUE("Attribute mask", "retry_count", NICLESS_ATTR_RETRY_COUNT);
	VALUE("Attribute mask", "rnr_retry", NICLESS_ATTR_RNR_RETRY);
	VALUE("Attribute mask", "rq_psn", NICLESS_ATTR_RQ_PSN);
	VALUE("Attribute mask", "max_rd_atomic", NICLESS_ATTR_MAX_RD_ATOMIC);
	VALUE("Attribute mask", "min_rnr_timer", NICLESS_ATTR_MIN_RNR_TIMER);
	VALUE("Attribute mask", "sq_psn", NICLESS_ATTR_SQ_PSN);
	VALUE("Attribute mask", "max_dest_rd_atomic", NICLESS_ATTR_MAX_DEST_RD_ATOMIC);
	VALUE("Attribute mask", "dest_qpn", NICLESS_ATTR_DEST_QPN);
	printf(".\n");
}

int main(void) {
	static char line[16384];
	share(&shared, sizeof shared);
	share(&request, sizeof request);
	while (fgets(line, sizeof line, stdin)) {
		const char *what = strtok(line, " \n");
		if (!what)
			continue;
		if (!strcmp(what, "queue"))
			printf("%d\n", queue());
		else if (!strcmp(what, "move"))
			printf("%d\n", move());
		else if (!strcmp(what, "post"))
			printf("%d\n", post());
		else if (!strcmp(what, "ring"))
			ring();
		else if (!strcmp(what, "recv"))
			recv_entry();
		else if (!strcmp(what, "cqe"))
			entry();
		else if (!strcmp(what, "arm"))
			arm();
		else if (!strcmp(what, "ci"))
			ci();
		else if (!strcmp(what, "send") || !strcmp(what, "receive"))
			rdmaxcel(what[0] == 'r');
		else if (!strcmp(what, "poll"))
			poll_entry();
		else if (!strcmp(what, "layout"))
			layout();
		else
			printf("error: request %s\n", what);
		fflush(stdout);
	}
	return 0;
}
