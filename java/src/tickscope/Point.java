package tickscope;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A place in a program that things pass; each leaves a stamp of its id there.
 *
 * <pre>{@code
 * private static final Point SEND = Point.of("send", Ordering.BEFORE);
 * SEND.stamp(request.id()); // right before it is sent
 * }</pre>
 *
 * <p>Any thread may stamp at any point. A platform thread has a channel of its own at each point. Virtual threads share
 * channels: each claims one for the time of a stamp, so it is the only one there even if it were moved to another
 * carrier in the middle; who finds all claimed opens another one. To open a channel takes a lock, to stamp takes none.
 * Where {@code TICKSCOPE_DIR} is unset nothing is stamped and nothing is loaded.
 */
public final class Point {
    /** {@code Thread.isVirtual}, which Java 17 lacks; null: there are no virtual threads. */
    private static final MethodHandle IS_VIRTUAL = isVirtualOrNone();
    private static final long LOOK_AGAIN_NS = 1_000_000;
    private static final Map<String, Point> KNOWN = new ConcurrentHashMap<>();

    private final String name;
    private final Ordering ordering;
    private final boolean isOn;
    private final Choice choice = new Choice();
    private final ThreadLocal<Channel> own = new ThreadLocal<>();
    /** By the number of a thread, its channel: common pools clear what is local to their threads after each task. */
    private final Map<Long, Pool.Owned> found = new ConcurrentHashMap<>();
    private volatile Channel[] shared = new Channel[0];
    private volatile long lookAgainNs = System.nanoTime();

    private Point(String name, Ordering ordering) {
        this.name = name;
        this.ordering = ordering;
        isOn = Pool.HERE != null && name != null && ordering != null && Settings.isPoint(name);
        if (Pool.HERE != null && !isOn) {
            Pool.HERE.count(Layout.CHANNELS_REFUSED);
            Complaint.say("expected an ordering and a point's name as 1 to 47 of A-Z a-z 0-9 . _ - and no dot first;"
                + " found " + ordering + " and '" + name + "'; the point is off");
        }
    }

    /** The point of that name and ordering: one that is asked for again is the same. Keep it in a static field. */
    public static Point of(String name, Ordering ordering) {
        return KNOWN.computeIfAbsent(ordering + " " + name, none -> new Point(name, ordering));
    }

    /** Stamps an id now. */
    public void stamp(long id) {
        if (Pool.HERE == null || !isOn) {
            return;
        }
        if (isVirtual()) {
            stampShared(id);
            return;
        }
        Channel channel = own();
        if (channel != null) {
            channel.stamp(id);
        }
    }

    /** Stamps an id with a tick that {@link Tickscope#now} gave, which many ids may share. */
    public void record(long id, long tick) {
        if (Pool.HERE == null || !isOn) {
            return;
        }
        Channel channel = isVirtual() ? claimed() : own();
        if (channel == null) {
            return;
        }
        try {
            channel.record(id, tick);
        } finally {
            if (isVirtual()) {
                channel.letGo();
            }
        }
    }

    /**
     * Has a function choose under the policy {@code own}, on all threads; null: nobody does, and stamps under it are
     * refused and counted.
     */
    public void choose(Chooser chooser) {
        choice.by(chooser);
    }

    /** Opens this thread's channel now: its first stamp then costs no more than others. */
    public void open() {
        if (Pool.HERE != null && isOn && !isVirtual()) {
            own();
        }
    }

    /** Closes this thread's channel here, as the thread's end does: what it stamped can be stored at once. */
    public void close() {
        Pool.Owned opened = openedBefore();
        if (opened != null) {
            own.remove();
            Pool.HERE.close(opened);
        }
    }

    /** What this thread has opened here and not closed; null: nothing. */
    private Pool.Owned openedBefore() {
        Thread thread = Thread.currentThread();
        Pool.Owned opened = found.get(thread.getId());
        return opened != null && opened.isOf(thread) ? opened : null;
    }

    private Channel own() {
        Channel channel = own.get();
        return channel != null ? channel : openOwn();
    }

    private Channel openOwn() {
        Pool.Owned before = openedBefore();
        Channel opened = before != null ? before.channel : opened(found);
        if (opened != null) {
            own.set(opened);
        }
        return opened;
    }

    /** A new channel; null: there is no room, and the stamp is counted. */
    private Channel opened(Map<Long, Pool.Owned> found) {
        if (System.nanoTime() - lookAgainNs >= 0) {
            Channel opened = Pool.HERE.open(name, ordering, choice, found);
            if (opened != null) {
                return opened;
            }
            lookAgainNs = System.nanoTime() + LOOK_AGAIN_NS;
        }
        Pool.HERE.count(Layout.WITHOUT_CHANNEL);
        return null;
    }

    private void stampShared(long id) {
        Channel channel = claimed();
        if (channel != null) {
            try {
                channel.stamp(id);
            } finally {
                channel.letGo();
            }
        }
    }

    /** A channel that is the caller's until it lets go. As many as ever stamped at once are open, no more. */
    Channel claimed() {
        Channel free = free();
        return free != null ? free : freeOrNew();
    }

    private Channel free() {
        Channel[] all = shared;
        int from = (int) (Thread.currentThread().getId() & Integer.MAX_VALUE);
        for (int step = 0; step < all.length; step++) {
            Channel channel = all[(from + step & Integer.MAX_VALUE) % all.length];
            if (channel.claim()) {
                return channel;
            }
        }
        return null;
    }

    /** Looks again: while it waited for its turn here, others have opened channels and let them go. */
    private synchronized Channel freeOrNew() {
        Channel free = free();
        if (free != null) {
            return free;
        }
        Channel opened = opened(null);
        if (opened != null) {
            opened.claim();
            Channel[] more = Arrays.copyOf(shared, shared.length + 1);
            more[shared.length] = opened;
            shared = more;
        }
        return opened;
    }

    private static boolean isVirtual() {
        if (IS_VIRTUAL == null) {
            return false;
        }
        try {
            return (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
        } catch (Throwable e) {
            throw new AssertionError(e); // it throws nothing
        }
    }

    private static MethodHandle isVirtualOrNone() {
        try {
            MethodType type = MethodType.methodType(boolean.class);
            return MethodHandles.publicLookup().findVirtual(Thread.class, "isVirtual", type);
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }
}
