package tickscope.opentelemetry;

import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizer;
import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizerProvider;

/** Adds {@link SpanStamps} to an SDK that configures itself, so that the service needs no line. */
public final class Stamping implements AutoConfigurationCustomizerProvider {
    /** For the service loader. */
    public Stamping() {}

    /** A wrong setting is told, and ends no service. */
    @Override
    public void customize(AutoConfigurationCustomizer sdk) {
        sdk.addTracerProviderCustomizer((provider, settings) -> {
            try {
                return provider.addSpanProcessor(SpanStamps.of(settings.getString(SpanStamps.ID, "trace")));
            } catch (IllegalArgumentException wrong) {
                System.err.println("tickscope: " + wrong.getMessage() + "; spans are not stamped");
                return provider;
            }
        });
    }
}
