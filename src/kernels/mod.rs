//! Pure functions over slices: no I/O, no async, no clocks.
