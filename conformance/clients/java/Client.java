import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Apache's Java clients as a client program: one JSON command a line in, one JSON answer a line out. */
public final class Client {
    private static final int MESSAGE_BYTES_MAX = 8 << 20;
    private static final int BUFFER_BYTES = 64 << 20;
    private static final int METADATA_MAX_AGE_MS = 1000;
    private static final Duration POLL = Duration.ofMillis(200);

    private final ObjectMapper json = new ObjectMapper();
    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();
    private final Members members;
    private final Transactions transactions;

    private Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.members = new Members(bootstrap);
        this.transactions = new Transactions(bootstrap);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Client client = new Client(arguments[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(client.answer(client.json.readTree(line)));
        }
    }

    private ObjectNode answer(JsonNode command) {
        ObjectNode answer = json.createObjectNode();
        try {
            switch (command.get("op").asText()) {
                case "produce" -> answer.put("records", produce(command));
                case "consume" -> answer.put("records", consume(command));
                case "idle" -> answer.put("records", idle(command));
                case "watermarks" -> watermarks(command, answer);
                case "times" -> times(command, answer.putArray("offsets"));
                case "topics" -> topics(answer.putObject("topics"));
                case "create" -> create(command);
                case "delete" -> delete(command);
                case "transact" -> transactions.transact(command);
                case "member" -> members.join(command);
                case "poll" -> members.poll(command, answer);
                case "leave" -> members.leave(command);
                case "committed" -> members.committed(command, answer.putArray("offsets"));
                case "reset_offsets" -> members.reset(command);
                default -> answer.put("error", "unknown op " + command.get("op"));
            }
        } catch (Exception failure) { // the client's failure is the check's result, whatever its type
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            answer.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        return answer;
    }

    private KafkaProducer<byte[], byte[]> newProducer(JsonNode command) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", command.get("acks").asText());
        settings.put("compression.type", command.get("codec").asText());
        settings.put("enable.idempotence", command.path("idempotent").asBoolean());
        settings.put("max.request.size", MESSAGE_BYTES_MAX);
        settings.put("buffer.memory", BUFFER_BYTES);
        settings.put("linger.ms", 5);
        settings.put("metadata.max.age.ms", METADATA_MAX_AGE_MS);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private int produce(JsonNode command) throws Exception {
        boolean kept = command.has("handle");
        KafkaProducer<byte[], byte[]> producer =
                kept ? producers.computeIfAbsent(command.get("handle").asText(), name -> newProducer(command))
                        : newProducer(command);
        String topic = command.get("topic").asText();
        int partition = command.get("partition").asInt();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (BufferedReader in = Files.newBufferedReader(Path.of(command.get("file").asText()))) {
            ProducerRecord<byte[], byte[]> record = RecordFile.next(in, topic, partition);
            for (; record != null; record = RecordFile.next(in, topic, partition)) {
                sent.add(producer.send(record));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        } finally {
            if (!kept) {
                producer.close();
            }
        }
        return sent.size();
    }

    private KafkaConsumer<byte[], byte[]> newConsumer(JsonNode command) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", METADATA_MAX_AGE_MS);
        if (command.has("fetch_bytes")) {
            settings.put("max.partition.fetch.bytes", command.get("fetch_bytes").asInt());
            settings.put("fetch.max.bytes", command.get("fetch_bytes").asInt());
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private KafkaConsumer<byte[], byte[]> assigned(JsonNode command) {
        KafkaConsumer<byte[], byte[]> consumer = newConsumer(command);
        TopicPartition partition = partition(command);
        consumer.assign(List.of(partition));
        consumer.seek(partition, command.get("offset").asLong());
        return consumer;
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    private int consume(JsonNode command) throws Exception {
        boolean kept = command.has("handle");
        KafkaConsumer<byte[], byte[]> consumer =
                kept ? consumers.computeIfAbsent(command.get("handle").asText(), name -> assigned(command))
                        : assigned(command);
        int wanted = command.get("count").asInt();
        int count = 0;
        long deadline = System.nanoTime() + command.get("timeout_ms").asLong() * 1_000_000;
        try (BufferedWriter out = Files.newBufferedWriter(Path.of(command.get("file").asText()))) {
            while (count < wanted) {
                if (System.nanoTime() > deadline) {
                    throw new TimeoutException((wanted - count) + " of " + wanted + " records missing");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    RecordFile.append(out, record);
                    count++;
                }
            }
        } finally {
            if (!kept) {
                consumer.close();
            }
        }
        return count;
    }

    private int idle(JsonNode command) {
        int count = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = assigned(command)) {
            long deadline = System.nanoTime() + command.get("ms").asLong() * 1_000_000;
            while (System.nanoTime() < deadline) {
                count += consumer.poll(POLL).count();
            }
        }
        return count;
    }

    private void watermarks(JsonNode command, ObjectNode answer) {
        TopicPartition partition = partition(command);
        try (KafkaConsumer<byte[], byte[]> consumer = newConsumer(command)) {
            answer.put("low", consumer.beginningOffsets(List.of(partition)).get(partition));
            answer.put("high", consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private void times(JsonNode command, ArrayNode offsets) {
        TopicPartition partition = partition(command);
        try (KafkaConsumer<byte[], byte[]> consumer = newConsumer(command)) {
            for (JsonNode timestamp : command.get("timestamps")) {
                OffsetAndTimestamp found =
                        consumer.offsetsForTimes(Map.of(partition, timestamp.asLong())).get(partition);
                if (found == null) {
                    offsets.addNull();
                } else {
                    offsets.add(found.offset());
                }
            }
        }
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    private void topics(ObjectNode topics) throws Exception {
        try (Admin admin = admin()) {
            Map<String, KafkaFuture<TopicDescription>> described =
                    admin.describeTopics(admin.listTopics().names().get()).topicNameValues();
            for (Map.Entry<String, KafkaFuture<TopicDescription>> topic : described.entrySet()) {
                try {
                    topics.put(topic.getKey(), topic.getValue().get().partitions().size());
                } catch (ExecutionException gone) {
                    // Another client of the run deleted it between the listing and the description.
                    if (!(gone.getCause() instanceof UnknownTopicOrPartitionException)) {
                        throw gone;
                    }
                }
            }
        }
    }

    private void create(JsonNode command) throws Exception {
        Map<String, String> configs = new HashMap<>();
        command.path("configs").fields().forEachRemaining(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        NewTopic topic = new NewTopic(command.get("topic").asText(), command.get("partitions").asInt(), (short) 1);
        try (Admin admin = admin()) {
            admin.createTopics(List.of(topic.configs(configs))).all().get();
        }
    }

    private void delete(JsonNode command) throws Exception {
        try (Admin admin = admin()) {
            admin.deleteTopics(List.of(command.get("topic").asText())).all().get();
        }
    }
}
