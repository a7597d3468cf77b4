import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.context.propagation.TextMapPropagator;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** A service and its client as others instrument them, with spans and {@code traceparent}; nothing of tickscope. */
public final class Traced {
    private static final OpenTelemetry SDK = AutoConfiguredOpenTelemetrySdk.initialize().getOpenTelemetrySdk();
    private static final Tracer TRACER = SDK.getTracer("traced");
    private static final TextMapPropagator PROPAGATOR = SDK.getPropagators().getTextMapPropagator();

    public static void main(String[] words) throws Exception {
        if (words[0].equals("names")) {
            pass(words);
            return;
        }
        int port = Integer.parseInt(words[2]);
        if (words[0].equals("server")) {
            HttpServer server = HttpServer.create(new InetSocketAddress(words[1], port), 0);
            server.createContext("/", Traced::serve);
            server.start();
        } else {
            ask(URI.create("http://" + words[1] + ":" + port + "/"), Integer.parseInt(words[3]));
        }
    }

    /** A span of each further name, renamed before it ends. */
    private static void pass(String[] names) {
        for (int i = 1; i < names.length; i++) {
            Span span = TRACER.spanBuilder(names[i]).startSpan();
            span.updateName("renamed");
            span.end();
        }
    }

    private static void serve(HttpExchange exchange) throws java.io.IOException {
        Context caller = PROPAGATOR.extract(Context.root(), exchange, new Headers());
        Span span = TRACER.spanBuilder("GET /orders").setParent(caller).setSpanKind(SpanKind.SERVER).startSpan();
        try (Scope scope = span.makeCurrent()) {
            Span work = TRACER.spanBuilder("work").startSpan();
            byte[] answer = span.getSpanContext().getTraceId().getBytes();
            work.end();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        } finally {
            span.end();
        }
    }

    private static void ask(URI service, int count) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int i = 0; i < count; i++) {
            Span span = TRACER.spanBuilder("ask").setSpanKind(SpanKind.CLIENT).startSpan();
            HttpRequest.Builder request = HttpRequest.newBuilder(service);
            try (Scope scope = span.makeCurrent()) {
                PROPAGATOR.inject(Context.current(), request, HttpRequest.Builder::header);
                String trace = client.send(request.build(), HttpResponse.BodyHandlers.ofString()).body();
                System.out.println("trace " + trace);
            } finally {
                span.end();
            }
        }
    }

    private static final class Headers implements TextMapGetter<HttpExchange> {
        @Override
        public Iterable<String> keys(HttpExchange exchange) {
            return exchange.getRequestHeaders().keySet();
        }

        @Override
        public String get(HttpExchange exchange, String key) {
            return exchange.getRequestHeaders().getFirst(key);
        }
    }
}
