/* Attributes of devices, of which CUDA's runtime and driver have the same numbers. */
#include "common.h"

int gpu_attribute(int *value, int number, int device) {
	struct gpu_properties g = {0};
	int error = gpu_properties(device, &g);
	if (error)
		return error;
	switch (number) {
	case 1: *value = g.threads; break;
	case 2: case 3: case 4: *value = g.block[number - 2]; break;
	case 5: case 6: case 7: *value = g.grid[number - 5]; break;
	case 8: *value = (int)g.shared; break;
	case 9: *value = (int)g.constant; break;
	case 10: *value = g.warp; break;
	case 11: *value = INT32_MAX; break;
	case 12: case 82: *value = g.registers; break;
	case 13: case 36: *value = g.clock; break;
	case 14: *value = g.texture; break;
	case 15: case 19: case 31: case 41: case 78: case 79: case 80: case 83: case 86: case 89: case 91:
	case 95: case 92: case 93: case 94: case 99: case 102: case 103: case 110: case 116: case 122: case 123: case 124:
		*value = 1;
		break;
	case 16: *value = g.sms; break;
	case 33: *value = g.bus; break;
	case 34: *value = g.device; break;
	case 37: *value = 64; break;
	case 38: *value = g.l2; break;
	case 39: *value = g.threads_of_sm; break;
	case 40: *value = 2; break;
	case 50: *value = g.domain; break;
	case 75: *value = g.major; break;
	case 76: *value = g.minor; break;
	case 81: *value = (int)g.shared_of_sm; break;
	case 97: *value = (int)g.shared_opt_in; break;
	case 118: *value = 200; break; /* writes of a NIC are in order for all devices */
	case 106: *value = g.blocks_of_sm; break;
	default: *value = 0; /* a feature that the device does not have */
	}
	return OK;
}
