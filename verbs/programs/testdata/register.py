# Registers memory with the first RDMA device, by way of pyverbs.
import pyverbs.enums as e
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD

name = get_device_list()[0].name.decode()
with Context(name=name) as context, PD(context) as pd, MR(pd, 1 << 20, e.IBV_ACCESS_LOCAL_WRITE) as mr:
    print(f"{name}: {mr.length} bytes registered")
