"""The library in java/, built when a test first asks for it, and programs in Java that use it."""

import fcntl
import functools
import pathlib
import shutil
import subprocess
import tempfile

TREE = pathlib.Path(__file__).parents[2]
JAR = TREE / "build/tickscope.jar"
PROGRAMS = TREE / "java/tests"
# Of the default JDK, and of one with virtual threads and foreign functions where it is there.
HOMES = [None, *sorted(pathlib.Path("/usr/lib/jvm").glob("*-2[5-9]-*"))]
# A start costs half as much with them.
FLAGS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
NATIVE = ["-XX:+IgnoreUnrecognizedVMOptions", "--enable-native-access=ALL-UNNAMED"]


@functools.cache
def classes():
    """The programs of tests as classes, and the jar: one build at a time, whoever asks."""
    (TREE / "build").mkdir(exist_ok=True)
    with (TREE / "build/java.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "build/tickscope.jar"], cwd=TREE, check=True)
    folder = tempfile.TemporaryDirectory(prefix="tickscope-java-")
    sources = sorted(PROGRAMS.rglob("*.java"))
    subprocess.run(["javac", "-nowarn", "-d", folder.name, "-cp", JAR, *sources], check=True)
    return folder


def java(program, *words, home=None, flags=FLAGS):
    """A command that runs a program in Java."""
    command = str(home / "bin/java") if home else shutil.which("java")
    return [command, *NATIVE, *flags, "-cp", f"{JAR}:{classes().name}", program, *words]
