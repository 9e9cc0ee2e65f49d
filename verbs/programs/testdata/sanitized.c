/* Registers memory of malloc and makes a queue pair. It is built with a sanitizer, which checks
 * every access and every function of the C library that is called. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(is)                                                                     \
	do {                                                                        \
		if (!(is)) {                                                        \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #is);    \
			return 1;                                                   \
		}                                                                   \
	} while (0)

int main(void) {
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char *memory = malloc(100000); /* its first and last page have bytes that may not be accessed */
	TRY(list && list[0] && memory);
	TRY((context = ibv_open_device(list[0])));
	TRY((pd = ibv_alloc_pd(context)));
	TRY((mr = ibv_reg_mr(pd, memory, 100000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)));
	TRY((cq = ibv_create_cq(context, 10, NULL, NULL, 0)));
	attr.send_cq = attr.recv_cq = cq;
	TRY((qp = ibv_create_qp(pd, &attr)));
	printf("made %s\n", ibv_get_device_name(list[0]));
	TRY(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0);
	TRY(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	ibv_free_device_list(list);
	free(memory);
	return 0;
}
