import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints what a consumer of committed records finds in topics, up to their end: topic, partition, offset, and the fields of a record
 * file (lib/records.py).
 *
 * <pre>
 * Dump BOOTSTRAP TOPIC...
 * </pre>
 */
public final class Dump {
    private Dump() {}

    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "isolation.level", "read_committed");
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = Arrays.stream(arguments)
                    .skip(1)
                    .flatMap(topic -> consumer.partitionsFor(topic).stream())
                    .map(info -> new TopicPartition(info.topic(), info.partition()))
                    .collect(Collectors.toList());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            // With read_committed this is the last stable offset: what is open does not count.
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    out.println(line(record));
                }
            }
        }
        out.flush();
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder(record.topic()).append('\t').append(record.partition());
        line.append('\t').append(record.offset()).append('\t').append(record.timestamp());
        line.append('\t').append(field(record.key())).append('\t').append(field(record.value()));
        for (Header header : record.headers()) {
            line.append('\t').append(field(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append('\t').append(field(header.value()));
        }
        return line.toString();
    }

    private static String field(byte[] data) {
        return data == null ? "-" : "+" + Base64.getEncoder().encodeToString(data);
    }
}
