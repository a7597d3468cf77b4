"""What compression gives and takes: records of 16 bytes through general codecs, as Cloudprofiler did, beside a disk.

The records are real ticks with 1 to 8 reads of memory between two (`codecs.c`). The disk's figure is that of a file of
the build folder, written and synced: what compressed data must go through where it is to last. Then our segments by
each codec and number of threads, written to that disk by `crates/store/examples/encoder.rs`. Both are drawn over the
number of threads, beside the disk, as Cloudprofiler's figures 13 and 14 are: `codecs.svg`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from curves import drawn
from figures import figure, median
from processes import BUILD, CPUS, OTHER_CPU, RELEASE, ROOT, STAMPING_CPU, filesystem, output_of
from recorders import uninstalled

PACKAGES = ("libzstd-dev", "liblz4-dev", "liblzo2-dev")
RECORDS, ROUNDS = 4_000_000, 9
DISK_BYTES, CHUNK_BYTES, DISK_TRIES = 512 << 20, 1 << 20, 3
RECORD_BYTES = 16
# Up to one a processor, and twice as many, which gain nothing.
ENCODER, THREADS = RELEASE / "examples" / "encoder", [*range(1, len(CPUS) + 1), 2 * len(CPUS)]
DRAWN = BUILD / "codecs.svg"
# Cloudprofiler's, figures 13 and 14: zstd on one node of 56 processors, beside its disk. Its text says 6.81 where 3191
# over 600.73 is 5.31; 100 are the eight threads, of 12.5 each, up to which it scales.
PUBLISHED = {
    "codec": "zstd", "ratio": 6.81, "M events/s, 8 threads": 100, "in MB/s, 13 threads": 3191,
    "out MB/s, 13 threads": 600.73, "disk MB/s": 632,
}


def measure_codecs(options):
    """Rows for the table of figures, and everything else, raw."""
    if why := uninstalled(PACKAGES):
        raise SystemExit(f"bench: {why}")
    flags = ["-O2", "-Wall", "-Wextra", "-pthread", "-I", "crates/stamp/include"]
    program = BUILD / "codecs"
    libraries = ["-lzstd", "-llz4", "-llzo2"]
    subprocess.run(["cc", *flags, "-o", program, "bench/codecs.c", *libraries], cwd=ROOT, check=True)
    disk = [written(options.of(DISK_BYTES)) for _ in range(DISK_TRIES)]
    rows, raw = [], {"published": PUBLISHED, "disk MB/s": disk, "disk's file system": filesystem(BUILD)}
    rows.append(figure(f"disk ({filesystem(BUILD)}): written and synced", median(disk), "MB/s"))
    for ids in ("sequential", "random"):
        words = [STAMPING_CPU, OTHER_CPU, options.of(RECORDS), options.of(ROUNDS), ids]
        passes = [json.loads(line) for line in output_of([program, *words]).splitlines()]
        rows += rows_of(ids, passes, median(disk))
        raw[f"{ids} ids"] = passes
    ours = f"zstd, Cloudprofiler's (figure 14), 13 threads: ratio {PUBLISHED['ratio']:g}; into it"
    rows.append(figure(ours, PUBLISHED["in MB/s, 13 threads"], "MB/s", ("its disk", PUBLISHED["disk MB/s"])))
    raw["segments"] = segments()
    DRAWN.write_text(drawn(panels(raw, median(disk))))
    print(f"bench: drawn over threads, beside the disk: {DRAWN.relative_to(ROOT)}", file=sys.stderr)
    return rows + [row for each in raw["segments"] for row in segment_rows(each)], raw


def panels(raw, disk):
    """Our segments by codec, and general codecs, each by kind of ids: curves over threads and levels, to be drawn."""
    for ids in ("sequential", "random20"):
        curves, levels = {}, {}
        for each in raw["segments"]:
            if each["stamps"] == ids:
                curves.setdefault(each["codec"], []).append((each["threads"], each["m_stamps_s"]))
                levels[f"the disk, synced, of {each['codec']}"] = each["disk_m_stamps_s"]
        yield f"Our segments, {ids} ids (figure 13)", "million stamps a second", curves, levels
    for ids in ("sequential", "random"):
        curves = {}
        for codec, threads in sorted({(each["codec"], each["threads"]) for each in raw[f"{ids} ids"]}):
            own = [each for each in raw[f"{ids} ids"] if (each["codec"], each["threads"]) == (codec, threads)]
            into = median([each["in_mb_s"] for each in own])
            curves.setdefault(f"{codec}, in", []).append((threads, into))
            curves.setdefault(f"{codec}, out", []).append((threads, into / own[0]["ratio"]))
        yield f"Records through codecs, {ids} ids (figure 14)", "MB/s", curves, {"the disk, written and synced": disk}


def segments():
    """Of each kind of stamps, codec and number of threads."""
    threads = ",".join(map(str, sorted(set(THREADS))))
    return [json.loads(line) for line in output_of([ENCODER, BUILD, "--threads", threads]).splitlines()]


def segment_rows(each):
    """Rate beside the disk's, and processor time beside that of copying the records into columns."""
    size, entropy = each["bytes_a_stamp"], each["entropy_bytes"]
    how = f"{each['stamps']} ids, {each['codec']}, threads {each['threads']}"
    title = f"segments, {how}: {size:.2f} B (entropy {entropy:.2f})"
    yield figure(title, each["m_stamps_s"], "M/s", ("disk alone", each["disk_m_stamps_s"]), **each)
    yield figure(f"segments, {how}: processor time a stamp", each["cpu_ns"], "ns", ("scatter", each["scatter_ns"]))


def rows_of(ids, passes, disk):
    """Into the codec, beside what it leaves of that for the disk."""
    for codec, threads in sorted({(each["codec"], each["threads"]) for each in passes}):
        own = [each for each in passes if (each["codec"], each["threads"]) == (codec, threads)]
        ratio, into = own[0]["ratio"], median([each["in_mb_s"] for each in own])
        back = median([each["back_mb_s"] for each in own])
        more = {"compression": ratio, "out_mb_s": into / ratio, "back_mb_s": back, "m_events_s": into / RECORD_BYTES}
        title = f"{ids} ids, {codec}, {threads} thread{'s' * (threads > 1)}: 1/{ratio:.2f}, in"
        yield figure(title, into, "MB/s", (f"out {into / ratio:.0f}, back {back:.0f}; disk", disk), **more)


def written(size):
    """MB/s of a file that is on the disk once this returns."""
    chunk = os.urandom(CHUNK_BYTES)
    with tempfile.NamedTemporaryFile(dir=BUILD, prefix="disk-") as file:
        start = time.monotonic()
        for _ in range(size // CHUNK_BYTES):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        return size / (time.monotonic() - start) / 1e6
