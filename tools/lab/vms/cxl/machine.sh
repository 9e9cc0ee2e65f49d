# A machine of two that share a CXL memory device of type 3. Sourced by node1.sh and node2.sh, which
# have set number. See tools/lab/README.md.
set -eu
node=$((number - 1)) address=192.168.8.$((99 + number))/24
LAB_KVM=no # the window is emulated for each access, and KVM cannot emulate all instructions
. "$(dirname "$0")/../common.sh"
: "${LAB_POOL:=/dev/shm/nicless-lab-cxl}"

# Debian 12's QEMU 7.2 has persistent memory only, with labels of each machine's own. It wants two root
# ports: for a bridge with one, Linux programs no decoder, and QEMU 7.2 then loses every access.
# LAB_CXL=volatile is for QEMU 10 with Linux 6.12, which refuses regions under a hypervisor.
if [ "${LAB_CXL:-persistent}" = volatile ]; then
	cpu=max,-hypervisor
	memory="volatile-memdev=pool"
	labels=
else
	memory="memdev=pool,lsa=labels"
	rm -f "$LAB_POOL.labels$number" # those of an earlier life name a region that is gone
	labels="-object memory-backend-file,id=labels,mem-path=$LAB_POOL.labels$number,size=1M,share=on"
fi

# maxcpus=2: as for the PCI device.
exec "$LAB_QEMU" $LAB_QEMU_DATA -accel "$accel" -machine q35,cxl=on -cpu "$cpu" -smp 1,maxcpus=2 -m 512,maxmem=4G,slots=4 \
	-nodefaults -no-user-config -display none -no-reboot \
	-device pxb-cxl,id=cxl.0,bus=pcie.0,bus_nr=52 \
	-device cxl-rp,id=port0,bus=cxl.0,chassis=0,port=0,slot=0 \
	-device cxl-rp,id=port1,bus=cxl.0,chassis=0,port=1,slot=1 \
	-object memory-backend-file,id=pool,mem-path="$LAB_POOL",size=1G,share=on $labels \
	-device cxl-type3,bus=port0,"$memory",id=cxl-memory \
	-M cxl-fmw.0.targets.0=cxl.0,cxl-fmw.0.size=1G \
	-kernel "$LAB_KERNEL" -initrd "$LAB_INITRD" -append "$append lab.pool=cxl" \
	$LAB_SERIAL "$@"
