#!/bin/sh
# Node 1 of two machines that share a CXL memory device of type 3. See tools/lab/README.md.
number=1
. "$(dirname "$0")/machine.sh"
