import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Apache's own consumer with its defaults. Reads every partition of a topic from its start to its end, again and again, and prints the
 * value bytes of each pass.
 *
 * <p>Arguments: bootstrap address, topic, number of partitions. It goes on until it is killed.
 */
public final class Consumer {
    private static final Duration POLL = Duration.ofSeconds(1);

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        List<TopicPartition> partitions = IntStream.range(0, Integer.parseInt(arguments[2]))
                .mapToObj(partition -> new TopicPartition(arguments[1], partition))
                .toList();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (true) {
                consumer.seekToBeginning(partitions);
                long bytes = 0;
                while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                        bytes += record.value().length;
                    }
                }
                System.out.println(bytes);
            }
        }
    }
}
