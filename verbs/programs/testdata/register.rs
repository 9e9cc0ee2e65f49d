// Registers memory with the first RDMA device, by way of libibverbs.
use std::ffi::{c_char, c_int, c_void, CStr};

#[repr(C)]
struct Mr {
    context: *mut c_void,
    pd: *mut c_void,
    addr: *mut c_void,
    length: usize,
}

#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(n: *mut c_int) -> *mut *mut c_void;
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut c_void;
    fn ibv_alloc_pd(context: *mut c_void) -> *mut c_void;
    fn ibv_reg_mr(pd: *mut c_void, at: *mut c_void, n: usize, access: c_int) -> *mut Mr;
    fn ibv_dereg_mr(mr: *mut Mr) -> c_int;
}

const LOCAL_WRITE: c_int = 1;

fn main() {
    let mut memory = vec![0u8; 1 << 20];
    unsafe {
        let mut n = 0;
        let list = ibv_get_device_list(&mut n);
        assert!(!list.is_null() && n > 0, "no RDMA device");
        let device = ibv_open_device(*list);
        assert!(!device.is_null(), "open: {}", std::io::Error::last_os_error());
        let pd = ibv_alloc_pd(device);
        let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), LOCAL_WRITE);
        assert!(!mr.is_null(), "register: {}", std::io::Error::last_os_error());
        let name = CStr::from_ptr(ibv_get_device_name(*list)).to_string_lossy();
        println!("{}: {} bytes registered", name, (*mr).length);
        ibv_dereg_mr(mr);
    }
}
