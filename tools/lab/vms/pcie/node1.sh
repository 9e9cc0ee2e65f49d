#!/bin/sh
# Node 1 of two machines that share memory behind a PCI device. See tools/lab/README.md.
number=1
. "$(dirname "$0")/machine.sh"
