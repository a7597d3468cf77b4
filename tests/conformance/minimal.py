"""A minimal writer of stamps, from docs/minimal-writer.md alone; takes the steps of the level `minimal` on stdin.

Ends with 64 at a step it lacks. `reserve N ID` writes an id without its tick, `say WORD` a line to stdout: for its own
test. Its stores are ordered as on x86-64: Python has no release store.
"""

import fcntl
import mmap
import os
import signal
import struct
import sys

BLOCK_BYTES, BLOCKS, ENTRIES, FIRST_BLOCK = 4096, 4, 16, 8192
CLOCK = int(os.environ.get("MINIMAL_CLOCK", 0))  # 0: ticks are of the pool's counter


class Pool:
    """Memory of the pool as bytes, and as words of 4 and 8 bytes that are stored at once."""

    def __init__(self, directory, node):
        self.instance = int.from_bytes(os.urandom(8), "little")
        place = f"{directory}/uid-{os.geteuid()}"
        os.path.isdir(place) or os.mkdir(place, 0o700)
        hidden = f"{place}/.pool-{self.instance:016x}.ticks"
        self.file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self.file, 0, FIRST_BLOCK + BLOCKS * BLOCK_BYTES)
        self.bytes = memoryview(mmap.mmap(self.file, 0))
        self.words, self.longs, self.signed = (self.bytes.cast(kind) for kind in "IQq")
        for at, word in ((8, 4), (12, 4096), (16, 256), (20, ENTRIES), (32, BLOCK_BYTES), (36, BLOCKS)):
            self.words[at // 4] = word
        self.longs[24 // 8], self.longs[40 // 8] = FIRST_BLOCK, self.instance
        with open("/proc/sys/kernel/random/boot_id") as boot:
            self.put(48, bytes.fromhex(boot.read().replace("-", "")))
        self.words[64 // 4], self.bytes[68] = int(os.environ.get("MINIMAL_PID", os.getpid())), 1
        self.put(96, node.encode())
        self.put(200, bytes.fromhex(os.environ.get("TICKSCOPE_KEY", "")))
        self.put(0, b"TICKPOOL")
        fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)  # as Java's FileChannel.lock(0, 1, false)
        os.rename(hidden, f"{place}/pool-{self.instance:016x}.ticks")

    def put(self, at, what):
        self.bytes[at : at + len(what)] = what


class Channel:
    def __init__(self, pool, point, ordering):
        self.pool, self.point = pool, point.encode()
        self.kind = bytes((("plain", "before", "after").index(ordering), 1, CLOCK))
        self.serial, self.thread = pool.words[49], os.getpid()  # this is the main thread
        pool.words[49] += 1  # at byte 196
        self.entry = next(at for at in range(4096, FIRST_BLOCK, 256) if pool.words[(at + 64) // 4] == 0)
        fields = (1, 0, self.serial, 0, self.thread, self.kind, self.point)
        pool.put(self.entry, struct.pack("=Q56x4I3s109x48s16x", *fields))
        self.block = self.slot = self.end = self.blocks = 0  # the slot is a byte of the pool
        pool.words[(self.entry + 64) // 4] = 2

    def add(self, offset):
        self.pool.longs[(self.entry + offset) // 8] += 1

    def lease(self):
        words, longs = self.pool.words, self.pool.longs
        block = next((at for at in range(FIRST_BLOCK, 4 * len(words), BLOCK_BYTES) if words[(at + 8) // 4] == 0), None)
        if block is None:
            return False
        words[(block + 8) // 4] = 1  # one thread alone leases here: no compare-exchange
        words[(block + 4) // 4], words[(block + 152) // 4] = 192 << 16 | 4, 1
        words[(block + 12) // 4], words[(block + 16) // 4] = self.serial, self.blocks
        longs[(block + 24) // 8], words[(block + 52) // 4] = self.pool.instance, self.thread
        self.pool.put(block + 64, self.kind)
        for there, here in ((72, 152), (80, 160), (88, 168)):
            longs[(block + there) // 8] = longs[(self.entry + here) // 8]
        self.pool.put(block + 96, self.point)
        words[block // 4] = 0x4B4C4254  # TBLK
        longs[(self.entry + 152) // 8] = 0
        longs[256 // 8] += 1
        self.block, self.slot, self.end, self.blocks = block, block + 192, block + BLOCK_BYTES, self.blocks + 1
        return True

    def record(self, id, tick):
        signed, entry, policy = self.pool.signed, self.entry, self.pool.words[self.entry // 4]
        if policy == 0:
            return
        if policy != 1 or tick == 0:
            self.add(136)
        elif self.slot < self.end or self.lease():
            signed[self.slot // 8], signed[self.slot // 8 + 1] = id, tick
            self.slot += 16
        else:
            self.add(128)
            signed[(entry + 168) // 8] = tick
            if signed[(entry + 152) // 8] == 0:
                signed[(entry + 160) // 8] = tick
            self.add(152)

    def close(self):
        if self.slot < self.end:
            self.pool.words[(self.block + 8) // 4] = 2
        self.pool.words[(self.entry + 64) // 4] = 3


pool, channels = Pool(os.environ["TICKSCOPE_DIR"], os.environ.get("TICKSCOPE_NODE", "node")), {}
for line in sys.stdin:
    match line.split():
        case ["open", at, point, ordering, "slim"]:
            channels[at] = Channel(pool, point, ordering)
        case ["record", at, id, tick]:
            channels[at].record(int(id), int(tick))
        case ["close", at]:
            channels[at].close()
        case ["reserve", at, id]:
            pool.signed[channels[at].slot // 8] = int(id)
        case ["say", word]:
            print(word, flush=True)
        case ["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            sys.exit(64)
pool.words[192 // 4] = 1
