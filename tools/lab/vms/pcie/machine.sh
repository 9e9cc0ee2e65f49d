# A machine of two that share memory behind a PCI device. Sourced by node1.sh and node2.sh, which
# have set number. See tools/lab/README.md.
set -eu
node=$((number - 1)) address=192.168.8.$((99 + number))/24
. "$(dirname "$0")/../common.sh"
: "${LAB_POOL:=/dev/shm/nicless-lab-pcie}"

# maxcpus=2: for a machine that can have one processor only, TCG emulates locked instructions as plain
# ones, and other machines see them torn.
exec "$LAB_QEMU" $LAB_QEMU_DATA -accel "$accel" -machine q35 -cpu "$cpu" -smp 1,maxcpus=2 -m 512 \
	-nodefaults -no-user-config -display none -no-reboot \
	-object memory-backend-file,id=pool,mem-path="$LAB_POOL",size=256M,share=on \
	-device ivshmem-plain,memdev=pool,master=on \
	-kernel "$LAB_KERNEL" -initrd "$LAB_INITRD" -append "$append lab.pool=pcie" \
	$LAB_SERIAL "$@"
