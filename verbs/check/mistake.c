/* mistake WHICH: makes one mistake, prints the errno, and ends with status 1. The explanations
 * that nicless gives are compared by verbs/programs.
 *
 * Some mistakes do not reach nicless, because libmlx5 refuses the call itself. */
#include "check.h"

#include <infiniband/mlx5dv.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* Returns a queue pair, or NULL and sets errno. */
static struct ibv_qp *queue_pair(enum ibv_qp_type type, uint32_t inlined) {
	struct ibv_qp_init_attr a = {NULL, cq, cq, NULL, {16, 16, 1, 1, inlined}, type, 0};
	return ibv_create_qp(pd, &a);
}

/* libmlx5 refuses: */

static int inline_data(void) { return queue_pair(IBV_QPT_RC, 1 << 20) != NULL; }

static int address_without_gid(void) {
	struct ibv_ah_attr a;
	MUST(queue_pair(IBV_QPT_UD, 0));
	memset(&a, 0, sizeof a);
	a.port_num = 1;
	a.dlid = 1;
	return ibv_create_ah(pd, &a) != NULL;
}

static int firmware(void) {
	struct mlx5dv_context_attr a = {MLX5DV_CONTEXT_FLAGS_DEVX, 0};
	struct ibv_device **list = ibv_get_device_list(NULL);
	MUST(list && list[0]);
	return mlx5dv_open_device(list[0], &a) != NULL;
}

static int wrong_state(void) {
	struct ibv_qp *qp = queue_pair(IBV_QPT_RC, 0);
	struct ibv_send_wr wr, *bad;
	MUST(qp);
	memset(&wr, 0, sizeof wr);
	wr.opcode = IBV_WR_SEND;
	errno = ibv_post_send(qp, &wr, &bad);
	return errno == 0;
}

/* nicless refuses: */

static int flow(void) {
	struct ibv_flow_attr a;
	struct ibv_qp *qp = queue_pair(IBV_QPT_UD, 0);
	MUST(qp);
	memset(&a, 0, sizeof a);
	a.type = IBV_FLOW_ATTR_NORMAL;
	a.size = sizeof a;
	a.port = 1;
	return ibv_create_flow(qp, &a) != NULL;
}

static int variable(void) { return mlx5dv_alloc_var(context, 0) != NULL; }

static int work_queue(void) {
	struct ibv_wq_init_attr a;
	memset(&a, 0, sizeof a);
	a.wq_type = IBV_WQT_RQ;
	a.max_wr = 16;
	a.max_sge = 1;
	a.pd = pd;
	a.cq = cq;
	return ibv_create_wq(context, &a) != NULL;
}

/* Neither refuses anything. */
static int nothing(void) { return 0; }

static const struct {
	const char *name;
	int (*make)(void);
} mistakes[] = {{"inline", inline_data}, {"address", address_without_gid},
                {"firmware", firmware},  {"flow", flow},
                {"variable", variable},  {"work-queue", work_queue},
                {"state", wrong_state},  {"nothing", nothing}};

int main(int argc, char **argv) {
	size_t i;
	context = open_device(NULL);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	MUST(pd && cq);
	for (i = 0; argc > 1 && i < sizeof mistakes / sizeof *mistakes; i++)
		if (!strcmp(argv[1], mistakes[i].name)) {
			errno = 0;
			if (mistakes[i].make())
				FAIL("%s was not refused", argv[1]);
			printf("mistake: %s: %s\n", argv[1], strerror(errno));
			return argc == 2; /* with another argument: as if all were well */
		}
	fprintf(stderr, "usage: mistake WHICH [forgive]\n");
	return 2;
}
