import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Members of consumer groups, by the name that the command gives them, and the groups' offsets from outside. */
final class Members {
    private static final int SESSION_MS = 6000;

    private final String bootstrap;
    private final Map<String, Member> members = new HashMap<>();

    Members(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** A member, and how often its partitions have changed. */
    private static final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private int rebalances;

        Member(Properties settings, String topic) {
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(Set.of(topic), this);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances++;
        }
    }

    void join(JsonNode command) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", command.get("group").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", SESSION_MS);
        settings.put("heartbeat.interval.ms", SESSION_MS / 12);
        settings.put("metadata.max.age.ms", 1000);
        if (command.has("instance")) {
            settings.put("group.instance.id", command.get("instance").asText());
        }
        members.put(command.get("handle").asText(), new Member(settings, command.get("topic").asText()));
    }

    void poll(JsonNode command, ObjectNode answer) {
        Member member = members.get(command.get("handle").asText());
        ArrayNode records = answer.putArray("records");
        long deadline = System.nanoTime() + command.get("ms").asLong() * 1_000_000;
        for (long left = deadline - System.nanoTime(); left > 0; left = deadline - System.nanoTime()) {
            for (ConsumerRecord<byte[], byte[]> record : member.consumer.poll(Duration.ofNanos(left))) {
                records.addArray().add(record.partition()).add(record.offset());
            }
        }
        if (command.get("commit").asBoolean() && !records.isEmpty()) {
            member.consumer.commitSync();
        }
        ArrayNode assigned = answer.putArray("assigned");
        member.consumer.assignment().forEach(partition -> assigned.add(partition.partition()));
        answer.put("rebalances", member.rebalances);
    }

    void leave(JsonNode command) {
        members.remove(command.get("handle").asText()).consumer.close();
    }

    private static Set<TopicPartition> partitions(JsonNode command) {
        Set<TopicPartition> partitions = new LinkedHashSet<>();
        for (int index = 0; index < command.get("partitions").asInt(); index++) {
            partitions.add(new TopicPartition(command.get("topic").asText(), index));
        }
        return partitions;
    }

    void committed(JsonNode command, ArrayNode offsets) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            Map<TopicPartition, OffsetAndMetadata> found =
                    admin.listConsumerGroupOffsets(command.get("group").asText()).partitionsToOffsetAndMetadata().get();
            for (TopicPartition partition : partitions(command)) {
                OffsetAndMetadata offset = found.get(partition);
                if (offset == null) {
                    offsets.addNull();
                } else {
                    offsets.add(offset.offset());
                }
            }
        }
    }

    void reset(JsonNode command) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        OffsetAndMetadata offset = new OffsetAndMetadata(command.get("offset").asLong());
        partitions(command).forEach(partition -> offsets.put(partition, offset));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.alterConsumerGroupOffsets(command.get("group").asText(), offsets).all().get();
        }
    }
}
