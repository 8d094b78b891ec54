"""What a writer and a reader do with a cube, by zarr-python and xarray.

usage: cube.py append DIRECTORY ORBIT STAMP
       cube.py read LOCATION

Both print one JSON document: of every level and array of an orbit its shape, a hash of every
slice, and the times; `append` of the slice it has appended. LOCATION is a directory or
s3://BUCKET/PREFIX, reached by the AWS_ variables.
"""

import hashlib
import json
import os
import sys

import numpy as np
import xarray
import zarr

BULK = ["vv", "vh", "border_mask"]


def store_at(location):
    """The store at a location, to read from."""
    if not location.startswith("s3://"):
        return zarr.storage.LocalStore(location, read_only=True)
    from obstore.store import S3Store

    bucket, prefix = location.removeprefix("s3://").split("/", 1)
    store = S3Store(
        bucket,
        prefix=prefix,
        endpoint=os.environ["AWS_ENDPOINT"],
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region=os.environ["AWS_REGION"],
        client_options={"allow_http": True},
    )
    return zarr.storage.ObjectStore(store, read_only=True)


def levels_of(orbit):
    return [level["asset"] for level in orbit.attrs["multiscales"]["layout"]]


def digest(values):
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def append(directory, name, stamp):
    """Appends a slice as the writer does: level by level, the bulk arrays before `time`."""
    orbit = zarr.open_group(directory, mode="r+", use_consolidated=False)[name]
    index = orbit["r10m/vv"].shape[0]
    appended = {}
    for factor, level in enumerate(levels_of(orbit)):
        group = orbit[level]
        appended[level] = {}
        for number, array in enumerate(BULK):
            array_ = group[array]
            shape = array_.shape[1:]
            array_.resize((index + 1, *shape))
            values = np.arange(np.prod(shape)).reshape(shape) + 100 * factor + 10 * number + index
            # A mask of nothing but fill has no object.
            values = values.astype(array_.dtype) * (array != "border_mask" or level == "r10m")
            array_[index] = values
            appended[level][array] = digest(values.astype(array_.dtype))
        group["time"].resize((index + 1,))
        group["time"][index] = stamp
    for array, value in [("absolute_orbit", 60000), ("relative_orbit", 30), ("platform", "S1C")]:
        orbit["r10m"][array].resize((index + 1,))
        orbit["r10m"][array][index] = value
    zarr.consolidate_metadata(directory, path=name)
    zarr.consolidate_metadata(directory)
    return appended


def read(location):
    """Reads a cube node by node, through its consolidated metadata, and by xarray."""
    found = {}
    root = zarr.open_group(store_at(location), mode="r", use_consolidated=False)
    through = zarr.open_group(store_at(location), mode="r")
    for name, orbit in root.groups():
        found[name] = {}
        for level in levels_of(orbit):
            group = orbit[level]
            arrays = {
                array: {
                    "shape": list(group[array].shape),
                    "slices": [digest(group[array][index]) for index in range(group[array].shape[0])],
                }
                for array in BULK
            }
            times = [int(time) for time in group["time"][:]]
            for array in [*BULK, "time"]:
                assert through[f"{name}/{level}/{array}"].shape == group[array].shape
            dataset = xarray.open_zarr(store_at(location), group=f"{name}/{level}", consolidated=False)
            decoded = dataset["time"].values.astype("datetime64[ns]").astype("int64")
            assert [int(time) for time in decoded] == times
            assert dataset["vv"].sizes["time"] == len(times)
            found[name][level] = {"arrays": arrays, "times": times}
    xarray.open_datatree(store_at(location), engine="zarr", consolidated=False).close()
    return found


if __name__ == "__main__":
    if sys.argv[1] == "append":
        print(json.dumps(append(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        print(json.dumps(read(sys.argv[2])))
