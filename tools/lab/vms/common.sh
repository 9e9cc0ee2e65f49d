# What the four scripts have in common: variables that the caller may set, with defaults. Sourced.
# The caller has set node (of the pool, from 0) and address.

: "${LAB_DIR:=$(dirname "$0")/../../../../bin/lab}" # what "make lab-files" has made
: "${LAB_KERNEL:=$LAB_DIR/vmlinux}"
: "${LAB_INITRD:=$LAB_DIR/initramfs}"
: "${LAB_QEMU:=qemu-system-x86_64}"
: "${LAB_QEMU_DATA:=}"     # -L FOLDER ..., if QEMU is unpacked and not installed
: "${LAB_SECONDS:=120}"    # the machine is off after this time, whatever happens
: "${LAB_CMD:=poster pong}"   # what the machine runs, by sh; then it is off
: "${LAB_ENGINE:=no}"      # yes: an engine runs before the command, with a link over the pool
: "${LAB_APPEND:=}"        # more for the kernel's command line
: "${LAB_TSC_KHZ:=0}"       # rate of this host's counter; 0: an emulated processor measures it, which fails on
                           # a busy host: then its clock is too fast
: "${LAB_SERIAL:=-chardev stdio,id=console,signal=on -serial chardev:console}"

if ! command -v "$LAB_QEMU" >/dev/null; then
	echo "$0: no program $LAB_QEMU; on Debian: apt-get install qemu-system-x86" >&2
	exit 1
fi
for file in "$LAB_KERNEL" "$LAB_INITRD"; do
	if [ ! -r "$file" ]; then
		echo "$0: no file $file; run: make lab-files" >&2
		exit 1
	fi
done

# /dev/kvm alone says little: where machines are not nested it can be there, and the guest stands still.
accel=tcg,thread=multi cpu=max
if [ "${LAB_KVM:-yes}" = yes ] && [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then
	accel=kvm cpu=host
	echo "$0: KVM" >&2
else
	echo "$0: TCG, an emulated processor: it proves function, never speed" >&2
fi

if [ "$LAB_CMD" = orders ]; then
	LAB_CMD= # the host gives orders through the second serial port
else
	LAB_CMD="lab.cmd=\"$LAB_CMD\""
fi

# no_timer_check: a busy host gives the machine no time while the kernel checks its timers.
append="console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check"
if [ "$accel" != kvm ] && [ "$LAB_TSC_KHZ" -gt 0 ]; then
	append="$append tsc_early_khz=$LAB_TSC_KHZ"
fi
append="$append lab.node=$node lab.address=$address lab.seconds=$LAB_SECONDS lab.engine=$LAB_ENGINE $LAB_APPEND $LAB_CMD"
