import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelPromise;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponse;
import tickscope.Ordering;
import tickscope.Point;

/** Stamps each request of a Netty pipeline as it comes in, and its response before it goes out. */
final class Stamps extends ChannelDuplexHandler {
    private static final Point RECEIVED = Point.of("received", Ordering.AFTER);
    private static final Point REPLY = Point.of("reply", Ordering.BEFORE);
    private long id;
    private boolean isStamped;

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        if (message instanceof HttpRequest) {
            try {
                id = Long.parseLong(((HttpRequest) message).headers().get("Id"));
                isStamped = true;
                RECEIVED.stamp(id);
            } catch (NumberFormatException e) {
                isStamped = false; // it is answered all the same
            }
        }
        context.fireChannelRead(message);
    }

    @Override
    public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) {
        if (isStamped && message instanceof HttpResponse) {
            REPLY.stamp(id);
        }
        context.write(message, promise);
    }
}
