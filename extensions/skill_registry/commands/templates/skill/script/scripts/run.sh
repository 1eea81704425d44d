#!/bin/sh
# {{title}}: replace the last line with the actual work.
set -eu

if [ "$#" -ne 1 ]; then
    echo "usage: run.sh FILE" >&2
    exit 2
fi
if [ ! -r "$1" ]; then
    echo "run.sh: $1 cannot be read" >&2
    exit 1
fi
wc -l <"$1"
