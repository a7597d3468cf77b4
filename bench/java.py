"""What a stamp in Java costs, on each JDK that is here, beside the counter read by C and what others take."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from figures import figure, median
from processes import BUILD, ROOT, STAMPING_CPU, blocks_of, output_of, stamp_directory

ROUNDS, STAMPS = 400, 500
# A stamp's reading in C, with its fence, is its floor; of the others it is `rdtsc`.
FLOORS = {"plain": "rdtsc", "before": "rdtsc;lfence", "after": "lfence;rdtsc"}
MOST_FLOORS = 2.5
NATIVE = ["-XX:+IgnoreUnrecognizedVMOptions", "--enable-native-access=ALL-UNNAMED"]
RIVALS = ROOT / "build/java/rivals"
# Of others and on other machines, in ns: Cloudprofiler's Table III in Java, and Kieker's record, least and most.
PUBLISHED = {"null": 97, "buffered": 152, "buffered, zstd": 173, "Kieker record": [4653, 5004]}
FOREIGN = 22  # the first Java that has foreign functions


def measure_java(options):
    subprocess.run(["make", "-s", "build/tickscope.jar"], cwd=ROOT, check=True)
    rows, raw = [], {"stamps a block": STAMPS, "published": PUBLISHED}
    for home in homes():
        version, blocks = blocks_in(home, options.of(ROUNDS))
        floors = readings_in_c(options.of(ROUNDS))
        rows += [row_of(version, name, median(blocks[name]), floors) for name in blocks if name != "nothing"]
        raw[f"Java {version}"] = {"readings in C, by block": floors, "ns a call, by block": blocks}
        against = rivals_in(home, options.of(ROUNDS))
        beside = ("stamp", median(against["stamp"])) if against else None
        rows += [figure(f"Java {version}: {name}", median(against[name]), "ns", beside) for name in against]
        raw[f"Java {version}"]["rivals, ns a call, by block"] = against
    print(f"published by others, in ns on other machines: {PUBLISHED}")
    return rows, raw


def rivals_in(home, rounds):
    """Blocks of Kieker's records and OpenTelemetry's spans, by name; none where Maven did not fetch them."""
    fetch = "java/fetch.sh bench/rivals/java/pom.xml build/java/rivals"
    if not (RIVALS / "pom.xml").exists():
        print(f"Kieker and OpenTelemetry are not here. Run {fetch}")
        return {}
    with stamp_directory(256 << 20) as environment, tempfile.TemporaryDirectory() as folder:
        flags = [*NATIVE, "-cp", f"build/tickscope.jar:{RIVALS}/*"]
        program = ["bench/JavaRivals.java", rounds, STAMPS, folder]
        return blocks_of(output_of([home / "bin/java", *flags, *program], STAMPING_CPU, environment))


def row_of(version, name, ns, floors):
    floor = FLOORS.get(name, "rdtsc")
    title, beside = f"Java {version}: {name}", (f"{floor} in C", median(floors[floor]))
    if name in FLOORS and int(version) >= FOREIGN:
        return figure(title, ns, "ns", beside, f"<= {MOST_FLOORS:g} x {floor}", ns <= MOST_FLOORS * beside[1])
    return figure(title, ns, "ns", beside)


def homes():
    """The default JDK and others that are installed."""
    found = [pathlib.Path(shutil.which("java") or "java").resolve().parents[1]]
    found += [path.resolve() for path in pathlib.Path("/usr/lib/jvm").glob("*") if (path / "bin/javac").exists()]
    return list(dict.fromkeys(found))


def blocks_in(home, rounds):
    """Its version, and blocks by name."""
    said = subprocess.run([home / "bin/java", "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "(\d+)', said)[1]
    with stamp_directory(256 << 20) as environment, tempfile.TemporaryDirectory() as folder:
        flags = [*NATIVE, "-cp", "build/tickscope.jar"]
        program = ["bench/JavaStamp.java", rounds, STAMPS, f"{folder}/recording.jfr"]
        output = output_of([home / "bin/java", *flags, *program], STAMPING_CPU, environment)
    blocks = blocks_of(output)
    if not blocks:
        sys.exit(f"bench: expected blocks of stamps in Java, found\n{output}")
    print(f"Java {version}: {re.search(r'^counter (.+)$', output, re.MULTILINE)[1]}")
    return version, blocks


def readings_in_c(rounds):
    with stamp_directory(128 << 20) as environment:
        library = BUILD / "libstamp_library.so"
        output = output_of([BUILD / "stamp", STAMPING_CPU, rounds, STAMPS, 0, library], None, environment)
    return {name: blocks for name, blocks in blocks_of(output).items() if name in FLOORS.values()}
