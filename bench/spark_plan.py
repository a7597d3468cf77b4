#!/usr/bin/env python3
"""A plan on paper for a table on Spark: bytes, partitions, core hours and money of so many stamps, in so many runs.

    bench/spark_plan.py [--stamps 1e12] [--runs 1000] [--cores 256] [--core-hour 0.05] [--terabyte-month 23]

Constants are what bench/spark.py measured, see docs/spark.md; --nanoseconds, --shuffled, --stored and --traces are
those of another machine. Nothing so large was tried: what grows faster than the stamps do, it does not know.
"""

import argparse

TERA = 1e12
PARTITION_STAMPS = 1 << 20
"""Of a segment, which is a partition of the reading stage."""
SHUFFLE_BYTES = 128 << 20
"""Of a partition of a shuffle."""
LIST_BYTES, ENTRY_BYTES = 256 << 20, 125
"""What digests.json may have, and what it takes for a file."""


def plan(options):
    runs, each = options.runs, options.stamps / options.runs
    segments = each / PARTITION_STAMPS
    hours = options.stamps * options.nanoseconds / 3.6e12
    shuffled = each * options.shuffled
    yield f"{options.stamps:.3g} stamps in {runs} runs of {each:.3g}, at {options.nanoseconds} ns of processor a stamp"
    stored, shuffled_all = (options.stamps * of / TERA for of in (options.stored, options.shuffled))
    yield f"storage: {each * options.stored / 1e9:.3g} GB of segments a run, {stored:.3g} TB in all"
    yield f"through the driver of a run: {each * options.traces / 1e9:.3g} GB of traces, {segments:.0f} segments listed"
    yield f"partitions: {segments:.0f} of segments, {max(1, shuffled / SHUFFLE_BYTES):.0f} of the shuffle"
    yield f"shuffled: {shuffled / 1e9:.3g} GB a run, {shuffled_all:.3g} TB in all"
    yield f"processor: {hours:.3g} core hours, {hours / options.cores:.3g} hours on {options.cores} cores"
    kept = stored + options.stamps * options.traces / TERA
    yield f"money: {hours * options.core_hour:.4g} for cores, {kept * options.terabyte_month:.4g} a month for storage"
    if segments * ENTRY_BYTES > LIST_BYTES:
        mebibytes = segments * ENTRY_BYTES / (1 << 20)
        yield f"does not go: digests.json would have {mebibytes:.0f} MiB of 256. Make more runs"


def main():
    asks = argparse.ArgumentParser()
    asks.add_argument("--stamps", type=float, default=1e12)
    asks.add_argument("--runs", type=int, default=1000)
    asks.add_argument("--cores", type=int, default=256)
    asks.add_argument("--core-hour", type=float, default=0.05, help="price of a core for an hour")
    asks.add_argument("--terabyte-month", type=float, default=23, help="price of a TB of storage for a month")
    asks.add_argument("--nanoseconds", type=float, default=7_200, help="of processor a stamp on Spark")
    asks.add_argument("--shuffled", type=float, default=36, help="bytes a stamp")
    asks.add_argument("--stored", type=float, default=10.0, help="bytes of segments a stamp")
    asks.add_argument("--traces", type=float, default=7.4, help="bytes of traces a stamp")
    print("\n".join(plan(asks.parse_args())))


if __name__ == "__main__":
    main()
