/* Commands of the program removal that it writes without librdmacm, whose header and that of the commands
 * do not go together. */
#include "check.h"
#include "removal.h"

#include <stddef.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

enum { DEVICE_REMOVAL = 11 }; /* RDMA_CM_EVENT_DEVICE_REMOVAL */

static ssize_t command(int fd, uint32_t cmd, size_t room, const void *body, size_t bytes) {
	struct {
		struct rdma_ucm_cmd_hdr h;
		uint8_t body[16];
	} w = {{cmd, (uint16_t)bytes, (uint16_t)room}, {0}};
	memcpy(w.body, body, bytes);
	errno = 0;
	return write(fd, &w, sizeof w.h + bytes);
}

void hear_old(int fd) {
	enum { OLD = offsetof(struct rdma_ucm_event_resp, reserved) };
	struct rdma_ucm_destroy_id_resp destroyed = {0};
	struct rdma_ucm_event_resp e;
	struct rdma_ucm_get_event get = {(uintptr_t)&e};
	struct rdma_ucm_destroy_id destroy = {(uintptr_t)&destroyed, 0, 0};
	memset(&e, 0xff, sizeof e);
	MUST(command(fd, RDMA_USER_CM_CMD_GET_EVENT, OLD - 4, &get, sizeof get) == -1);
	SAME(errno, ENOSPC);
	MUST(command(fd, RDMA_USER_CM_CMD_GET_EVENT, OLD, &get, sizeof get) > 0);
	SAME(e.event, DEVICE_REMOVAL);
	SAME(e.status, 0);
	SAME(e.reserved, 0xffffffff); /* it is beyond the room */
	destroy.id = e.id;
	MUST(command(fd, RDMA_USER_CM_CMD_DESTROY_ID, 0, &destroy, sizeof destroy) == -1);
	SAME(errno, ENOSPC);
	MUST(command(fd, RDMA_USER_CM_CMD_DESTROY_ID, sizeof destroyed, &destroy, sizeof destroy) > 0);
	SAME(destroyed.events_reported, 4); /* the address, the route, the group, and the end */
}
