#!/bin/sh
# Node 2 of two machines that share memory behind a PCI device. See tools/lab/README.md.
number=2
. "$(dirname "$0")/machine.sh"
