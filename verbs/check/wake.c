/* wake [DEVICE]: whoever posts while the device sleeps wakes it, and so does whoever arms a completion queue.
 * The work would be done without that too, after a nap of the device, so the program counts what is written
 * to eventfds of its own. The device sleeps after each operation, sooner or later. */
#include "check.h"

#include <dirent.h>
#include <time.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;

/* Returns the sum of the counts of all eventfds of this process. */
static unsigned long long signals(void) {
	unsigned long long sum = 0, count;
	char name[300], line[100];
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fdinfo");
	FILE *file;
	MUST(dir);
	while ((entry = readdir(dir))) {
		snprintf(name, sizeof name, "/proc/self/fdinfo/%s", entry->d_name);
		file = fopen(name, "r");
		if (!file)
			continue;
		while (fgets(line, sizeof line, file))
			if (sscanf(line, "eventfd-count: %llx", &count) == 1)
				sum += count;
		fclose(file);
	}
	closedir(dir);
	return sum;
}

static void post(void) {
	struct ibv_send_wr wr = {0}, *bad;
	struct ibv_wc wc;
	wr.opcode = IBV_WR_RDMA_WRITE; /* of no bytes */
	wr.send_flags = IBV_SEND_SIGNALED;
	DO(ibv_post_send(qp, &wr, &bad));
	wait_completion(cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
}

static void complete(void) {
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_wc wc;
	MUST(ex);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, 0, 0);
	ibv_wr_set_sge_list(ex, 0, NULL);
	DO(ibv_wr_complete(ex));
	wait_completion(cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
}

static void arm(void) { DO(ibv_req_notify_cq(cq, 0)); }

/* Repeats an operation until it has found the device asleep. */
static void until_woken(const char *what, void (*act)(void)) {
	const struct timespec pause = {0, 2000 * 1000};
	unsigned long long before = signals();
	int i;
	strcpy(doing, what);
	for (i = 0; signals() == before; i++) {
		if (i == 5000)
			FAIL("the device was never woken");
		nanosleep(&pause, NULL);
		act();
	}
}

static void make(void) {
	struct ibv_qp_init_attr_ex init = {0};
	struct ibv_qp_attr m = {0};
	MUST((pd = ibv_alloc_pd(context)));
	MUST((cq = ibv_create_cq(context, 16, NULL, ibv_create_comp_channel(context), 0)));
	init.send_cq = init.recv_cq = cq;
	init.cap.max_send_wr = init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	init.qp_type = IBV_QPT_RC;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.pd = pd;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	MUST((qp = ibv_create_qp_ex(context, &init)));
	m.qp_state = IBV_QPS_INIT;
	m.port_num = 1;
	m.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	DO(ibv_modify_qp(qp, &m, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	connect_with(qp, qp);
}

int main(int argc, char **argv) {
	int i;
	for (i = 0; i < 2; i++) { /* the second time perhaps at the same address */
		MUST((context = open_device(argc > 1 ? argv[1] : NULL)));
		make();
		until_woken("ibv_post_send", post);
		until_woken("ibv_wr_complete", complete);
		until_woken("ibv_req_notify_cq", arm);
		DO(ibv_destroy_qp(qp));
		DO(ibv_destroy_cq(cq));
		DO(ibv_dealloc_pd(pd));
		DO(ibv_close_device(context));
	}
	printf("wake: 2 contexts, 3 functions: ok\n");
	return 0;
}
