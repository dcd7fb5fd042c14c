"""What has to be fast or small, measured: `python -m benchmarks [NAME…]`, or `make bench`.

Each module here is a benchmark. Its `main()` prints what it finds as it goes and returns its
figures, by name: numbers, or mappings of numbers. Where a figure can be one, it is a ratio of two
things measured in the same run, so that it says the same on any machine.
"""
