#!/usr/bin/env bash
# Packs golden cases, one archive each, beside this script.
#
# usage: tests/data/pack.sh CASES_DIR
#
# CASES_DIR holds one directory per case: input/, expected.<law>/, declared.<law>.json,
# config.yaml, case.json. The archives depend on nothing but the contents of those files
# (and the version of zstd): names sorted, clocks at zero, one owner, one mode.
set -euo pipefail

cases_dir=${1:?usage: pack.sh CASES_DIR}
here=$(cd "$(dirname "$0")" && pwd)

for name in plain strata flux temporal windowed windowed_all deep deep_strata fine; do
    members=(input expected.boundary expected.raw declared.boundary.json declared.raw.json config.yaml case.json)
    # Files only, so that one mode fits all; --format=gnu allows names of any length.
    (cd "$cases_dir/$name" && find "${members[@]}" -type f -print0 | LC_ALL=C sort -z |
        tar --create --format=gnu --no-recursion --null --files-from=- \
            --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644) |
        zstd -19 --quiet --force -o "$here/$name.tar.zst"
done
du --bytes --total "$here"/*.tar.zst
