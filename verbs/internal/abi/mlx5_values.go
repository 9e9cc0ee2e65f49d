package abi

// rdma/mlx5_user_ioctl_verbs.h: types and structures of what the mlx5 driver adds.

// enum mlx5_ib_uapi_uar_alloc_type.
const (
	MLX5UARAllocTypeBF = 0 // MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF
	MLX5UARAllocTypeNC = 1 // MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC
)

// struct mlx5_ib_uapi_query_port.
const (
	MLX5QueryPortSize = 40 // sizeof(struct mlx5_ib_uapi_query_port)
)

// enum mlx5_ib_uapi_dm_type.
const (
	MLX5DMTypeMemIC = 0 // MLX5_IB_UAPI_DM_TYPE_MEMIC
)
