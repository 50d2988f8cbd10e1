import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers, by the name that the command gives them. */
final class Transactions {
    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    /** Transactions that were left open; the next command goes on with them. */
    private final Set<String> open = new HashSet<>();

    Transactions(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    private KafkaProducer<byte[], byte[]> started(String id) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", id);
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    void transact(JsonNode command) throws Exception {
        String handle = command.get("handle").asText();
        KafkaProducer<byte[], byte[]> producer =
                producers.computeIfAbsent(handle, name -> started(command.get("id").asText()));
        if (!open.remove(handle)) {
            producer.beginTransaction();
        }
        String topic = command.get("topic").asText();
        int partition = command.get("partition").asInt();
        try (BufferedReader in = Files.newBufferedReader(Path.of(command.get("file").asText()))) {
            ProducerRecord<byte[], byte[]> record = RecordFile.next(in, topic, partition);
            for (; record != null; record = RecordFile.next(in, topic, partition)) {
                producer.send(record).get();
            }
        }
        switch (command.get("outcome").asText()) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> open.add(handle);
        }
    }
}
