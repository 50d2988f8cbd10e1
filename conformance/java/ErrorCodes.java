import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

import java.util.Arrays;
import java.util.Comparator;
import java.util.StringJoiner;

/**
 * Prints every protocol error code of the Kafka client library as JSON: code, name, retriable.
 *
 * <p>Run with {@code java -cp "$(conformance/lib/jars.sh)" conformance/java/ErrorCodes.java > schema/errors.json}.
 */
public final class ErrorCodes {
    public static void main(String[] args) {
        StringJoiner lines = new StringJoiner(",\n", "[\n", "\n]");
        Arrays.stream(Errors.values())
            .sorted(Comparator.comparingInt(Errors::code))
            .map(error -> String.format("  { \"code\": %d, \"name\": \"%s\", \"retriable\": %b }",
                error.code(), error.name(), error.exception() instanceof RetriableException))
            .forEach(lines::add);
        System.out.println(lines);
    }
}
