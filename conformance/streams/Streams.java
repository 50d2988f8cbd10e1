import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * A Kafka Streams application whose output can be computed, and what feeds it.
 *
 * <pre>
 * Streams app BOOTSTRAP STATE_DIR [ID] word count, join and windowed count, exactly once, until it is ended; a static member
 *                                      when it has an id
 * Streams feed BOOTSTRAP PER_SECOND [COUNT]
 *                                      writes records 0, 1, 2, ... up to the count or until a line comes in; prints how many
 * </pre>
 */
public final class Streams {
    static final String APPLICATION = "kaas-streams";
    static final int USERS = 20;
    static final long WINDOW_MS = 10_000;
    /** The time of the first record: input times are counted from here, so that windows can be computed. */
    static final long EPOCH_MS = 1_700_000_000_000L;
    /** How far record times are apart. */
    static final long STEP_MS = 7;

    private Streams() {}

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "app" -> app(arguments[1], arguments[2], arguments.length > 3 ? arguments[3] : null);
            case "feed" -> feed(
                    arguments[1],
                    Integer.parseInt(arguments[2]),
                    arguments.length > 3 ? Long.parseLong(arguments[3]) : Long.MAX_VALUE);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static String user(long i) {
        return "user-" + i % USERS;
    }

    static String line(long i) {
        return "w" + i % 7 + " w" + i % 11 + " x" + i % 101;
    }

    private static void app(String bootstrap, String stateDir, String instance) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to("word-counts");
        KTable<String, String> users = builder.table("users");
        KStream<String, String> clicks = builder.stream("clicks");
        clicks.join(users, (click, name) -> name + ":" + click).to("joined");
        clicks.to("seen");
        builder.<String, String>stream("seen")
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(WINDOW_MS), Duration.ofDays(1)))
                .count()
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .mapValues(String::valueOf)
                .to("windowed");
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, stateDir);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // The records' times are years old: or else retention removes the windows' changelog while it is needed.
        settings.put(StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG, Duration.ofDays(36_500).toMillis());
        // Every input record gives an output record: then duplicates and losses show.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), instance == null ? 6000 : 30_000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1000);
        if (instance != null) {
            settings.put(StreamsConfig.consumerPrefix("group.instance.id"), instance);
        }
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10_000);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        new CountDownLatch(1).await();
    }

    private static void feed(String bootstrap, int perSecond, long count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("enable.idempotence", true);
        settings.put("delivery.timeout.ms", 600_000);
        settings.put("max.block.ms", 600_000);
        settings.put("linger.ms", 5);
        AtomicReference<Exception> failed = new AtomicReference<>();
        long sent = 0;
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < USERS; i++) {
                producer.send(new ProducerRecord<>("users", null, EPOCH_MS, user(i), "name-" + i)).get();
            }
            System.out.println("users");
            BufferedReader stop = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            long start = System.nanoTime();
            for (; sent < count && !stop.ready(); sent++) {
                long time = EPOCH_MS + sent * STEP_MS;
                long at = sent;
                producer.send(new ProducerRecord<>("lines", null, time, String.valueOf(at), line(at)), (metadata, failure) -> {
                    if (failure != null) failed.set(failure);
                });
                producer.send(new ProducerRecord<>("clicks", null, time, user(at), String.valueOf(at)), (metadata, failure) -> {
                    if (failure != null) failed.set(failure);
                });
                long due = start + sent * 1_000_000_000L / perSecond;
                long early = due - System.nanoTime();
                if (early > 1_000_000) {
                    Thread.sleep(early / 1_000_000);
                }
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        System.out.println(sent);
    }
}
