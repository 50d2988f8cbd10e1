import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** The record file of lib/records.py: tabs between fields, `-` for null, `+` and base64 for bytes. */
final class RecordFile {
    private RecordFile() {}

    static byte[] parse(String field) {
        return field.equals("-") ? null : Base64.getDecoder().decode(field.substring(1));
    }

    static String print(byte[] data) {
        return data == null ? "-" : "+" + Base64.getEncoder().encodeToString(data);
    }

    /** The next record of the file as one to produce, or null at its end. */
    static ProducerRecord<byte[], byte[]> next(BufferedReader in, String topic, int partition) throws IOException {
        String line = in.readLine();
        if (line == null) {
            return null;
        }
        String[] fields = line.split("\t", -1);
        List<Header> headers = new ArrayList<>();
        for (int i = 3; i < fields.length; i += 2) {
            headers.add(new RecordHeader(new String(parse(fields[i]), StandardCharsets.UTF_8), parse(fields[i + 1])));
        }
        long timestamp = Long.parseLong(fields[0]);
        return new ProducerRecord<>(
                topic, partition, timestamp < 0 ? null : timestamp, parse(fields[1]), parse(fields[2]), headers);
    }

    static void append(BufferedWriter out, ConsumerRecord<byte[], byte[]> record) throws IOException {
        StringBuilder line = new StringBuilder().append(record.timestamp());
        line.append('\t').append(print(record.key())).append('\t').append(print(record.value()));
        for (Header header : record.headers()) {
            line.append('\t').append(print(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append('\t').append(print(header.value()));
        }
        out.append(line.append('\n'));
    }
}
