//go:build linux && (amd64 || arm64)

package verbs

import (
	"cmp"
	"fmt"
)

// A callName is the function of libibverbs or libmlx5 that makes an ioctl, so that a refusal
// can name the programmer's call. The kernel has these ioctls. Some of them are served here,
// and then their names are not used.
type callName struct {
	object, method uint16
	objectName     string // enumerators of rdma/ib_user_ioctl_cmds.h and rdma/mlx5_user_ioctl_cmds.h
	methodName     string
	function       string
}

var callNames = [...]callName{
	{15, 0, "UVERBS_OBJECT_COUNTERS", "UVERBS_METHOD_COUNTERS_CREATE", "ibv_create_counters"},
	{12, 0, "UVERBS_OBJECT_WQ", "UVERBS_METHOD_WQ_CREATE", "ibv_create_wq"},
	{13, 0, "UVERBS_OBJECT_FLOW_ACTION", "UVERBS_METHOD_FLOW_ACTION_ESP_CREATE", "ibv_create_flow_action_esp"},
	{13, 0x1000, "UVERBS_OBJECT_FLOW_ACTION", "MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER", "mlx5dv_create_flow_action_modify_header"},
	{13, 0x1001, "UVERBS_OBJECT_FLOW_ACTION", "MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT", "mlx5dv_create_flow_action_packet_reformat"},
	{9, 0x1000, "UVERBS_OBJECT_FLOW", "MLX5_IB_METHOD_CREATE_FLOW", "mlx5dv_create_flow"},
	{0x1003, 0x1000, "MLX5_IB_OBJECT_FLOW_MATCHER", "MLX5_IB_METHOD_FLOW_MATCHER_CREATE", "mlx5dv_create_flow_matcher"},
	{0x1009, 0x1000, "MLX5_IB_OBJECT_STEERING_ANCHOR", "MLX5_IB_METHOD_STEERING_ANCHOR_CREATE", "mlx5dv_create_steering_anchor"},
	{0x1000, 0x1001, "MLX5_IB_OBJECT_DEVX", "MLX5_IB_METHOD_DEVX_QUERY_UAR", "mlx5dv_devx_alloc_uar"},
	{0x1000, 0x1002, "MLX5_IB_OBJECT_DEVX", "MLX5_IB_METHOD_DEVX_QUERY_EQN", "mlx5dv_devx_query_eqn"},
	{0x1002, 0x1000, "MLX5_IB_OBJECT_DEVX_UMEM", "MLX5_IB_METHOD_DEVX_UMEM_REG", "mlx5dv_devx_umem_reg"},
	{0x1004, 0x1000, "MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD", "MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC", "mlx5dv_devx_create_cmd_comp"},
	{0x1005, 0x1000, "MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD", "MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC", "mlx5dv_devx_create_event_channel"},
	{0x1006, 0x1000, "MLX5_IB_OBJECT_VAR", "MLX5_IB_METHOD_VAR_OBJ_ALLOC", "mlx5dv_alloc_var"},
	{0x1007, 0x1000, "MLX5_IB_OBJECT_PP", "MLX5_IB_METHOD_PP_OBJ_ALLOC", "mlx5dv_pp_alloc"},
}

// newerCallNames are the same for ioctls of Linux 7.3 that are not in the headers of Debian 12.
var newerCallNames = [...]callName{
	{0, 8, "UVERBS_OBJECT_DEVICE", "UVERBS_METHOD_QUERY_COMP_CNTR_CAPS", "ibv_query_comp_cntr_caps"},
	{4, 2, "UVERBS_OBJECT_QP", "UVERBS_METHOD_QP_ATTACH_COMP_CNTR", "ibv_qp_attach_comp_cntr"},
	{17, 0, "UVERBS_OBJECT_DMAH", "UVERBS_METHOD_DMAH_ALLOC", "ibv_alloc_dmah"},
	{18, 0, "UVERBS_OBJECT_DMABUF", "UVERBS_METHOD_DMABUF_ALLOC", "ibv_dm_export_dmabuf_fd or mlx5dv_devx_uar_export_dmabuf_fd"},
	{19, 0, "UVERBS_OBJECT_COMP_CNTR", "UVERBS_METHOD_COMP_CNTR_CREATE", "ibv_create_comp_cntr"},
	{0, 0x1001, "UVERBS_OBJECT_DEVICE", "MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH", "mlx5dv_get_data_direct_sysfs_path"},
}

// reasons says of a function why the device does not have it.
var reasons = map[string]string{
	"ibv_alloc_dmah":      "its hints steer writes of a PCIe device to caches (TPH), and there is no PCIe device",
	"ibv_create_counters": "counters count what flow steering rules (ibv_create_flow) match, and this device has no such rules",
}

// A commandName is a callName for a write command.
type commandName struct {
	number   uint32
	name     string // enumerator of rdma/ib_user_verbs.h
	function string
}

var commandNames = [...]commandName{
	{15, "IB_USER_VERBS_CMD_BIND_MW", "ibv_bind_mw"},
	{39, "IB_USER_VERBS_CMD_CREATE_XSRQ", "ibv_create_srq_ex"},
	{extended | 50, "IB_USER_VERBS_EX_CMD_CREATE_FLOW", "ibv_create_flow"},
	{extended | 52, "IB_USER_VERBS_EX_CMD_CREATE_WQ", "ibv_create_wq"},
	{extended | 53, "IB_USER_VERBS_EX_CMD_MODIFY_WQ", "ibv_modify_wq"},
	{extended | 55, "IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL", "ibv_create_rwq_ind_table"},
}

// unserved names the call of a program, if this server has no such method.
func unserved(object, method uint16) string {
	return because(object, method, "this device does not have it")
}

// because names the call of a program, and says why it is refused: the call's own reason, or why.
func because(object, method uint16, why string) string {
	for _, names := range [][]callName{callNames[:], newerCallNames[:]} {
		for _, n := range names {
			if n.object == object && n.method == method {
				return fmt.Sprintf("%s (%s): %s", n.function, n.methodName, cmp.Or(reasons[n.function], why))
			}
		}
	}
	return fmt.Sprintf("object %#x method %#x: %s", object, method, why)
}

// unservedCommand does the same for a write command.
func unservedCommand(number uint64) string {
	for _, n := range commandNames {
		if uint64(n.number) == number {
			return fmt.Sprintf("%s (%s): this device does not have it", n.function, n.name)
		}
	}
	return fmt.Sprintf("write command %#x: this device does not have it", number)
}
