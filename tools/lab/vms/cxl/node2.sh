#!/bin/sh
# Node 2 of two machines that share a CXL memory device of type 3. See tools/lab/README.md.
number=2
. "$(dirname "$0")/machine.sh"
