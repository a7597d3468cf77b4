import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import java.util.Collection;
import java.util.Locale;
import kieker.common.configuration.Configuration;
import kieker.common.record.controlflow.OperationExecutionRecord;
import kieker.monitoring.core.configuration.ConfigurationFactory;
import kieker.monitoring.core.controller.MonitoringController;
import tickscope.Ordering;
import tickscope.Point;

/**
 * What others take for an event in Java, beside a stamp of the same rounds: lines {@code block NAME	NS}, as
 * {@code JavaStamp.java} prints them. Kieker writes binary records, each with two times, to files; OpenTelemetry hands
 * spans to a batch processor whose exporter throws them away; one that its full queue drops costs it less.
 *
 * <pre>java -cp tickscope.jar:rivals/* JavaRivals.java ROUNDS CALLS FOLDER</pre>
 */
public final class JavaRivals {
    private static final int WARM_ROUNDS = 400;
    private static final String FILES = "kieker.monitoring.writer.filesystem.";
    private static final Point STAMP = Point.of("stamp", Ordering.PLAIN);
    private static final String[] NAMES = {"stamp", "OpenTelemetry span", "Kieker record"};

    /** Makes so many calls. */
    private interface Block {
        void calls(int count);
    }

    private static final class Nowhere implements SpanExporter {
        @Override
        public CompletableResultCode export(Collection<SpanData> spans) {
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public CompletableResultCode flush() {
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public CompletableResultCode shutdown() {
            return CompletableResultCode.ofSuccess();
        }
    }

    public static void main(String[] words) {
        int rounds = Integer.parseInt(words[0]), calls = Integer.parseInt(words[1]);
        SdkTracerProvider spans = SdkTracerProvider.builder()
            .addSpanProcessor(BatchSpanProcessor.builder(new Nowhere()).build()).build();
        Tracer tracer = spans.get("bench");
        MonitoringController kieker = MonitoringController.createInstance(toFiles(words[2]));
        Block[] blocks = {
            count -> { for (int id = 0; id < count; id++) STAMP.stamp(id); },
            count -> { for (int id = 0; id < count; id++) span(tracer); },
            count -> { for (int id = 0; id < count; id++) record(kieker, id); },
        };
        for (int round = -WARM_ROUNDS; round < rounds; round++) {
            for (int i = 0; i < blocks.length; i++) {
                long begun = System.nanoTime();
                blocks[i].calls(calls);
                double ns = (double) (System.nanoTime() - begun) / calls;
                if (round >= 0) {
                    System.out.printf(Locale.ROOT, "block %s\t%.2f%n", NAMES[i], ns);
                }
            }
        }
        kieker.terminateMonitoring();
        spans.close();
    }

    private static Configuration toFiles(String folder) {
        Configuration settings = ConfigurationFactory.createDefaultConfiguration();
        settings.setProperty(FILES + "FileWriter.customStoragePath", folder);
        settings.setProperty(FILES + "FileWriter.logStreamHandler", FILES + "BinaryLogStreamHandler");
        return settings;
    }

    private static void span(Tracer tracer) {
        Span span = tracer.spanBuilder("work").startSpan();
        span.end();
    }

    private static void record(MonitoringController kieker, int id) {
        long begun = kieker.getTimeSource().getTime(), ended = kieker.getTimeSource().getTime();
        kieker.newMonitoringRecord(
            new OperationExecutionRecord("void work()", "session", id, begun, ended, "here", 0, 0));
    }
}
