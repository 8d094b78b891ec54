#!/usr/bin/env bash
# Packs the golden cubes into one archive beside this script.
#
# usage: tests/data/cube/pack.sh CUBES_DIR
#
# CUBES_DIR holds cases.json and one directory per cube, with NAME.expected beside it where
# a heal adds something. The archive depends on nothing but the contents of those files
# (and the version of zstd): names sorted, clocks at zero, one owner, one mode.
set -euo pipefail

cubes_dir=${1:?usage: pack.sh CUBES_DIR}
here=$(cd "$(dirname "$0")" && pwd)

(cd "$cubes_dir" && find . -type f -printf '%P\0' | LC_ALL=C sort -z |
    tar --create --format=gnu --no-recursion --null --files-from=- \
        --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644) |
    zstd -19 --quiet --force -o "$here/cubes.tar.zst"
du --bytes "$here/cubes.tar.zst"
