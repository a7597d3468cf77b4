import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelPromise;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import java.io.PrintWriter;

/**
 * An HTTP service on Netty, with {@link Stamps} in its pipeline; beside them it reads {@code System.nanoTime()} and
 * logs it, once around them and once within: {@code id,outer-in,inner-in,inner-out,outer-out}.
 *
 * <pre>java -cp tickscope.jar:netty/*:. Service ADDRESS PORT LOG.csv</pre>
 */
public final class Service {
    public static void main(String[] words) throws Exception {
        PrintWriter log = new PrintWriter(words[2]);
        log.println("id,outer-in,inner-in,inner-out,outer-out");
        ServerBootstrap server = new ServerBootstrap()
            .group(new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory()))
            .channel(NioServerSocketChannel.class)
            .childHandler(new ChannelInitializer<SocketChannel>() {
                @Override
                protected void initChannel(SocketChannel channel) {
                    Outside outside = new Outside(log);
                    channel.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(1 << 16));
                    channel.pipeline().addLast(outside, new Stamps(), new Answers(outside));
                }
            });
        server.bind(words[0], Integer.parseInt(words[1])).sync();
    }

    /** The service's own clock, before a request is stamped and after its response was. */
    private static final class Outside extends ChannelDuplexHandler {
        private final PrintWriter log;
        private long in, innerIn, innerOut;
        private String id;

        private Outside(PrintWriter log) {
            this.log = log;
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            in = System.nanoTime();
            context.fireChannelRead(message);
        }

        @Override
        public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) {
            log.println(id + "," + in + "," + innerIn + "," + innerOut + "," + System.nanoTime());
            log.flush();
            context.write(message, promise);
        }
    }

    private static final class Answers extends SimpleChannelInboundHandler<FullHttpRequest> {
        private final Outside outside;

        private Answers(Outside outside) {
            this.outside = outside;
        }

        @Override
        protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
            outside.innerIn = System.nanoTime();
            outside.id = request.headers().get("Id");
            byte[] answer = request.uri().getBytes();
            DefaultFullHttpResponse response = new DefaultFullHttpResponse(
                HttpVersion.HTTP_1_1, HttpResponseStatus.OK, Unpooled.wrappedBuffer(answer));
            response.headers().set("Content-Length", answer.length);
            outside.innerOut = System.nanoTime();
            context.writeAndFlush(response);
        }
    }
}
