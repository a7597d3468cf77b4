package tickscope;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;

/**
 * Prints what the library says of policies that are given; of none, what it says of counters, of the file that it
 * unpacks and of a claim: a line each, named by its first word.
 */
public final class Checks {
    private static final int BRACKETS = 100;
    private static final long LATER = 50_000_000, WIDTH = 30, GAP = 100;

    /** Where a candidate stands when the counter is at a tick. */
    private interface Candidate {
        long at(long tick);
    }

    public static void main(String[] policies) throws Exception {
        if (policies.length > 0) {
            tell(policies);
            return;
        }
        System.out.println("unpacked " + rightsOfUnpacked());
        System.out.println("claims " + claims());
        System.out.println("waited " + isTakenByWhoWaited());
        say("itself", tick -> tick);
        say("nanoseconds", tick -> tick * 10 / 26);
        say("nanoseconds-from-here", tick -> tick < LATER ? tick : LATER + (tick - LATER) * 10 / 26);
        say("drift", tick -> tick + tick / 1_000_000);
        say("offset", tick -> tick - 1_000);
        say("behind", tick -> tick + 1_000);
        say("step", tick -> tick < LATER ? tick : tick + 2 * WIDTH);
    }

    private static void tell(String[] policies) {
        for (String text : policies) {
            Policy policy = Policy.of(text);
            System.out.println(policy == null ? "none" : policy.number + " " + Long.toUnsignedString(policy.parameter));
        }
    }

    private static String rightsOfUnpacked() throws Exception {
        Path file = NativeCounter.unpacked();
        String rights = PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
        Files.delete(file);
        return rights;
    }

    /** Whether a channel can be claimed, again while it is, and after it was let go. */
    private static String claims() {
        Channel channel = Pool.HERE.open("claimed", Ordering.PLAIN, new Choice(), null);
        String claims = channel.claim() + " " + channel.claim();
        channel.letGo();
        return claims + " " + channel.claim();
    }

    /** Whether a channel that became free while a thread waited to open one is taken by it. */
    private static boolean isTakenByWhoWaited() throws InterruptedException {
        Point point = Point.of("waited", Ordering.PLAIN);
        Channel[] taken = new Channel[1];
        Thread waits = new Thread(() -> taken[0] = point.claimed());
        Channel opened;
        synchronized (point) {
            waits.start();
            while (waits.getState() != Thread.State.BLOCKED) {
                Thread.sleep(1);
            }
            opened = point.claimed();
            opened.letGo();
        }
        waits.join();
        return taken[0] == opened;
    }

    private static void say(String name, Candidate candidate) {
        String refusal = Proof.refusal(brackets(0, candidate), brackets(LATER, candidate));
        System.out.println(name + " " + (refusal == null ? "is the counter" : refusal));
    }

    private static long[][] brackets(long begun, Candidate candidate) {
        long[][] brackets = new long[BRACKETS][];
        for (int i = 0; i < BRACKETS; i++) {
            long before = begun + i * GAP;
            brackets[i] = new long[] {before, candidate.at(before + WIDTH / 2), before + WIDTH};
        }
        return brackets;
    }
}
