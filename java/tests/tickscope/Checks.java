package tickscope;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;

/**
 * Prints what the library says of policies that are given; of none, what it says of the file that it unpacks and of a
 * claim: a line each, named by its first word.
 */
public final class Checks {
    public static void main(String[] policies) throws Exception {
        if (policies.length > 0) {
            tell(policies);
            return;
        }
        System.out.println("unpacked " + rightsOfUnpacked());
        System.out.println("claims " + claims());
        System.out.println("waited " + isTakenByWhoWaited());
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
}
